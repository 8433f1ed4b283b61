"""Places for clients: a bounded number at a time, given in order, each for a bounded time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.clock import Timer
from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.places import PLACE_SECONDS, Places

from tests.servers.recording_outbox import RecordingOutbox, a_peer

MOST = 3


class Twin:
    """The same, in the dumbest way: it looks at everything in each step."""

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()
        self.taken: dict[int, float] = {}
        self.begun: list[int] = []
        self.were_waiting = False

    def look(self, now: float) -> None:
        self.taken = {n: until for n, until in self.taken.items() if until > now}
        room = MOST - len(self.taken)
        if not self.were_waiting or room >= MOST / 2:
            self.begin(room, now)
        self.were_waiting = len(self.waiting) > 0

    def begin(self, room: int, now: float) -> None:
        for _ in range(room):
            if not self.waiting:
                return
            number = self.waiting.popleft()
            self.taken[number] = now + PLACE_SECONDS
            self.begun.append(number)


@settings(derandomize=True)
@given(st.lists(st.one_of(st.none(), st.integers(0, 9), st.sampled_from([0.25, 0.5, 1.0])), max_size=60))
def test_places_are_given_as_a_look_at_everybody_gives_them(steps: list[int | float | None]) -> None:
    outbox, twin = RecordingOutbox(), Twin()
    begun: list[int] = []
    places = Places(outbox, MOST, lambda client: begun.append(int(client.peer.node)))
    clients: list[ConnectedClient] = []
    for step in steps:
        if step is None:
            client = ConnectedClient(a_peer(str(len(clients)), Role.CLIENT))
            twin.waiting.append(len(clients))
            clients.append(client)
            places.come(client)
        elif isinstance(step, float):
            for _ in range(4):  # the twin looks at each moment at which a place may be free
                outbox.advance(step / 4)
                twin.look(outbox.time)
        elif step < len(clients):
            places.leave(clients[step])
            twin.taken.pop(step, None)
            if step in twin.waiting:
                twin.waiting.remove(step)
        outbox.end_turn()
        twin.look(outbox.time)
        assert begun == twin.begun
        assert places.waiting == len(twin.waiting)


def test_places_are_given_again_once_half_of_them_are_free() -> None:
    outbox = RecordingOutbox()
    begun: list[ConnectedClient] = []
    places = Places(outbox, 4, begun.append)
    clients = [ConnectedClient(a_peer(str(number), Role.CLIENT)) for number in range(7)]
    for client in clients:
        places.come(client)
    outbox.end_turn()
    places.leave(clients[2])
    outbox.end_turn()
    assert begun == clients[:4]
    places.leave(clients[0])
    outbox.end_turn()
    assert begun == clients[:6]


def test_who_comes_while_a_place_is_free_and_nobody_waits_gets_it() -> None:
    outbox = RecordingOutbox()
    begun: list[ConnectedClient] = []
    places = Places(outbox, 4, begun.append)
    clients = [ConnectedClient(a_peer(str(number), Role.CLIENT)) for number in range(4)]
    for client in clients:
        places.come(client)
        outbox.end_turn()
    assert begun == clients


def test_the_oldest_place_is_the_first_that_is_over() -> None:
    outbox = RecordingOutbox()
    begun: list[ConnectedClient] = []
    places = Places(outbox, 2, begun.append)
    first, second, third, fourth = (ConnectedClient(a_peer(name, Role.CLIENT)) for name in "abcd")
    places.come(first)
    outbox.end_turn()
    outbox.advance(PLACE_SECONDS / 2)
    for client in (second, third, fourth):
        places.come(client)
    outbox.end_turn()
    outbox.advance(PLACE_SECONDS / 2)
    assert begun == [first, second, third]
    assert [places.has(client) for client in (first, second, third)] == [False, True, True]
    assert places.is_waiting(fourth)


def test_many_that_wait_share_one_timer() -> None:
    class CountingOutbox(RecordingOutbox):
        timers = 0

        def after(self, seconds: float, action: Callable[[], None]) -> Timer:
            self.timers += 1
            return super().after(seconds, action)

    outbox = CountingOutbox()
    places = Places(outbox, 1, lambda client: None)
    for number in range(100):
        places.come(ConnectedClient(a_peer(str(number), Role.CLIENT)))
        outbox.end_turn()
    assert (outbox.timers, places.waiting) == (1, 99)
    outbox.advance(PLACE_SECONDS)
    assert (outbox.timers, places.waiting) == (2, 98)


def test_nobody_gets_a_place_after_a_clear() -> None:
    outbox = RecordingOutbox()
    begun: list[ConnectedClient] = []
    places = Places(outbox, 1, begun.append)
    first, second = (ConnectedClient(a_peer(name, Role.CLIENT)) for name in "ab")
    places.come(first)
    places.come(second)
    outbox.end_turn()
    assert (begun, places.has(first), places.has(second)) == ([first], True, False)
    places.clear()
    outbox.advance(2 * PLACE_SECONDS)
    assert (begun, places.waiting) == ([first], 0)


def test_after_a_clear_all_places_are_free() -> None:
    outbox = RecordingOutbox()
    begun: list[ConnectedClient] = []
    places = Places(outbox, 1, begun.append)
    first, later = (ConnectedClient(a_peer(name, Role.CLIENT)) for name in "ab")
    places.come(first)
    outbox.end_turn()
    places.clear()
    places.come(later)
    outbox.end_turn()
    assert begun == [first, later]


def test_the_holders_of_keys_take_turns_and_the_clients_of_one_come_in_their_order() -> None:
    outbox = RecordingOutbox()
    begun: list[str] = []
    places = Places(outbox, 1, lambda client: begun.append(client.peer.node))

    def come(name: str, key: str) -> ConnectedClient:
        client = ConnectedClient(a_peer(name, Role.CLIENT))
        client.peer.proven = Principal(key, Role.CLIENT, "k" * 40)
        places.come(client)
        return client

    greedy = [come(f"greedy/{number}", "greedy") for number in range(100)]
    outbox.end_turn()
    come("shop/1", "shop")
    come("shop/2", "shop")
    gone = greedy[1]
    places.leave(gone)
    assert places.waiting == 100
    assert not places.is_waiting(gone)
    outbox.advance(4 * PLACE_SECONDS + 0.01)
    assert begun == ["greedy/0", "greedy/2", "shop/1", "greedy/3", "shop/2"]
    assert places.waiting == 96
    places.clear()
    assert places.waiting == 0
