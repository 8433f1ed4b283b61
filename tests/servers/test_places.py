"""Places for clients: a bounded number at a time, given in order, each for a bounded time."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.model.nodes import Role
from slotreeve_servers.session.clients import ConnectedClient
from slotreeve_servers.session.places import PLACE_SECONDS, Places

from tests.servers.recording_outbox import RecordingOutbox, a_peer

MOST = 3


class Twin:
    """The same, in the dumbest way: it looks at everything in each step."""

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()
        self.taken: dict[int, float] = {}
        self.begun: list[int] = []

    def look(self, now: float) -> None:
        self.taken = {n: until for n, until in self.taken.items() if until > now}
        while self.waiting and len(self.taken) < MOST:
            number = self.waiting.popleft()
            self.taken[number] = now + PLACE_SECONDS
            self.begun.append(number)


@settings(derandomize=True, deadline=None)
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
