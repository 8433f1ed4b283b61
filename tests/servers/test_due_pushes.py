"""Pushes that wait for the end of a turn: a herd of subscribers holds up nobody."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import pytest
from slotreeve.model.datum import content_digest
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import Pong, Scope, Subscribe, Want
from slotreeve_protocol.general_messages import Ping
from slotreeve_protocol.meta_messages import View
from slotreeve_protocol.orders import Orders
from slotreeve_protocol.slot_messages import Changed, DatumChange
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.paced_work import AGAIN_SECONDS, STEPS_AT_ONCE, TURN_SECONDS
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.core import SessionCore
from slotreeve_servers.session.push.due_pushes import DuePushes
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver
from tests.servers.world import OneSlot, node_of

SERVICES = [f"s{number}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP" for number in range(200)]
READ_SECONDS = 50e-6
PUSH_SECONDS = 40e-6
WANT_SECONDS = 15e-6


class OneService:
    """Notes what it is asked to do; each push takes half of a slice. The service ``fails`` then fails."""

    def __init__(self, outbox: RecordingOutbox, name: str, log: list[str]) -> None:
        self._outbox, self._name, self._log = outbox, name, log

    def fire(self) -> None:
        self._push(self._name)

    def catch_up(self, client: ConnectedClient) -> None:
        self._push(f"{client.peer.node}:{self._name}")

    def _push(self, text: str) -> None:
        self._outbox.time += TURN_SECONDS / 2
        self._log.append(text)
        if self._name == "fails":
            raise OSError("the disk is full")


class Scene:
    """A queue of due pushes. ``log``: what was pushed."""

    def __init__(self) -> None:
        self.outbox, self.log = RecordingOutbox(), list[str]()
        self.orders = OrdersInForce("session-1")
        self.due = DuePushes(self.outbox, self.orders)

    def service(self, name: str) -> OneService:
        return OneService(self.outbox, name, self.log)

    def turns(self, count: int) -> list[str]:
        """What is pushed in each of so many turns."""
        turns = []
        for _ in range(count):
            try:
                self.outbox.end_one_turn()
            except OSError:
                self.log.append("failed")
            turns.append(" ".join(self.log))
            self.log.clear()
        return turns


def a_client(name: str) -> ConnectedClient:
    return ConnectedClient(a_peer(name, Role.CLIENT))


def test_very_many_due_pushes_leave_room_for_other_work_and_one_that_fails_does_not_hold_up_the_others() -> None:
    scene = Scene()
    for name in ("a", "b", "c", "d", "fails", "e"):
        scene.due.add(scene.service(name))
    assert scene.turns(4) == ["a b", "c d", "fails failed", "e"]


def test_changed_services_and_clients_that_subscribed_take_turns() -> None:
    scene = Scene()
    first = a_client("x")
    for name in ("a", "fails", "b"):
        scene.due.add_subscriber(first, scene.service(name))
    scene.due.add_subscriber(a_client("y"), scene.service("c"))
    for name in ("k", "l", "m"):
        scene.due.add(scene.service(name))
    assert scene.turns(4) == ["k x:a l", "m y:c", "x:fails failed", ""]
    scene.outbox.advance(AGAIN_SECONDS)
    assert scene.log == ["x:b"], "what the client has besides the one that fails is not lost"


def test_new_orders_let_those_go_on_whom_they_allow_it_and_cost_nothing_for_the_others() -> None:
    scene = Scene()
    clients = {name: a_client(name) for name in ("x", "y", "left", "gone", "free")}
    scene.orders.orders = Orders(push_stopped=True, push_to=frozenset({"free"}))
    services = {name: scene.service(name) for name in ("a", "b")}
    for client in clients.values():
        for service in services.values():
            assert scene.due.admits(client, service) is (client is clients["free"])
    scene.due.left(clients["left"], services["a"])
    scene.due.forget(clients["gone"])
    scene.orders.orders = Orders(push_stopped=True, push_to=frozenset({"x", "left", "gone"}))
    scene.due.orders_changed()
    assert scene.turns(3) == ["x:a x:b", "left:b", ""]
    scene.due.orders_changed()
    assert scene.turns(1) == [""], "who goes on has been let go on"
    scene.orders.orders = Orders()
    scene.due.orders_changed()
    assert scene.turns(2) == ["y:a y:b", ""]


def test_while_there_is_more_to_read_a_turn_pushes_to_one_subscriber_and_to_changed_services_as_long_as_before() -> (
    None
):
    scene = Scene()
    for name in ("x", "y"):
        scene.due.add_subscriber(a_client(name), scene.service("a"))
    for name in ("k", "l", "m", "n"):
        scene.due.add(scene.service(name))
    scene.outbox.has_unread = True
    assert scene.turns(3) == ["k x:a l", "m y:a n", ""]


def test_a_client_with_very_many_subscriptions_does_not_hold_up_the_next_one() -> None:
    scene = Scene()
    greedy, other = a_client("greedy"), a_client("other")
    for number in range(3 * STEPS_AT_ONCE):
        scene.due.add_subscriber(greedy, scene.service(str(number)))
    scene.due.add_subscriber(other, scene.service("s"))
    pushed = " ".join(scene.turns(2 * STEPS_AT_ONCE)).split()
    assert pushed.index("other:s") <= STEPS_AT_ONCE
    assert [name for name in pushed if name != "other:s"] == [f"greedy:{n}" for n in range(3 * STEPS_AT_ONCE)]


def test_a_client_waits_once_for_each_service_and_not_at_all_once_its_connection_has_ended() -> None:
    scene = Scene()
    client, gone, service = a_client("x"), a_client("gone"), scene.service("a")
    scene.due.add_subscriber(gone, service)
    for _ in range(3):
        scene.due.add_subscriber(client, service)
    scene.due.forget(gone)
    assert scene.turns(2) == ["x:a", ""]


def test_a_client_whose_connection_has_no_room_catches_up_with_each_service_once_it_has() -> None:
    scene = Scene()
    full, gone = a_client("full"), a_client("gone")
    services = [scene.service("a"), scene.service("b")]
    scene.outbox.crowded |= {full.peer, gone.peer}
    assert not any(scene.due.admits(client, service) for client in (full, gone) for service in services)
    assert scene.due.crowded == 2
    scene.due.forget(gone)
    assert scene.due.crowded == 1
    scene.outbox.advance(1.0)
    assert scene.log == []
    scene.outbox.crowded.clear()
    scene.outbox.advance(1.0)
    assert scene.log == ["full:a", "full:b"]
    assert scene.due.crowded == 0
    assert scene.due.admits(full, services[0])
    scene.outbox.advance(1.0)
    assert scene.log == ["full:a", "full:b"]


# --- a herd subscribes -----------------------------------------------------------------------------------------------


class TimedOutbox(RecordingOutbox):
    """Each push takes time. ``longest``: seconds of the longest action, and of the longest handling of a message."""

    longest = 0.0
    pushes = 0

    def send_encoded(self, peer: Peer, frame: bytes, what: str) -> bool:
        self.time += PUSH_SECONDS
        self.pushes += 1
        return True

    def at_turns_end(self, action: Callable[[], None]) -> None:
        super().at_turns_end(partial(self.timed, action))

    def timed(self, action: Callable[[], None]) -> None:
        began = self.time
        action()
        self.longest = max(self.longest, self.time - began)


class Herd:
    """session-1, which knows all services, and clients that are connected to it."""

    def __init__(self, clients: int) -> None:
        self.outbox = TimedOutbox()
        self.core = SessionCore(self.outbox, node_of("session-1"), SessionSettings(), 1.0, OneSlot())
        self._subscribe = self.core.interests.subscribe
        self.core.interests.subscribe = self._timed_subscribe  # type: ignore[method-assign]
        table = SlotTable(1, (Slot(0, "data-1", 1, ()),))
        view = View(1, 1, table, [node_of("data-1")], [node_of("session-1")])
        self.core.membership.handlers.messages[View](a_peer("meta-1", Role.META), view)
        data = a_peer("data-1", Role.DATA)
        self.core.leaders.opened(data)
        self.clients = [self.connect(f"client-{number}") for number in range(clients)]
        self.subscribe(self.connect("first"), *SERVICES)
        changes = [DatumChange(name, 0, 1, content_digest(at(name)), at(name), []) for name in SERVICES]
        deliver(self.outbox, self.core.leaders.handlers, data, Changed(changes))
        self.outbox.advance(5.0)
        self.outbox.pushes, self.outbox.longest = 0, 0.0

    def _timed_subscribe(self, client: ConnectedClient, want: Want, slot: int) -> None:
        self.outbox.time += WANT_SECONDS
        self._subscribe(client, want, slot)

    def connect(self, name: str) -> Peer:
        peer = a_peer(name, Role.CLIENT)
        self.core.opened(peer)
        return peer

    def subscribe(self, peer: Peer, *services: str) -> None:
        deliver(self.outbox, self.core.handlers, peer, Subscribe([Want(name, Scope.DATA_CENTER) for name in services]))

    def read(self, arrived: deque[tuple[Peer, Message]]) -> list[float]:
        """Turns of an event loop whose listener reads for at most 5 ms in each; returns when each Ping was answered."""
        answered: list[float] = []

        def take(peer: Peer, message: Message) -> None:
            self.outbox.time += READ_SECONDS
            self.outbox.has_unread = bool(arrived)
            if isinstance(message, Ping):
                assert isinstance(self.core.handlers.requests[Ping](peer, message), Pong)
                answered.append(self.outbox.time)
            else:
                self.core.handlers.messages[type(message)](peer, message)

        while arrived:
            until = self.outbox.time + TURN_SECONDS
            while arrived and self.outbox.time < until:
                self.outbox.timed(partial(take, *arrived.popleft()))
            self.outbox.end_one_turn()
        return answered


def at(service: str) -> list[Publisher]:
    return [Publisher(f"{service}-{n}", service, 1, 1, "session-1@1", "", (b"here",)) for n in range(20)]


def test_a_ping_behind_the_subscriptions_of_a_herd_is_answered_before_most_of_its_pushes_are_sent() -> None:
    herd = Herd(2_000)
    arrived = deque[tuple[Peer, Message]]()
    for number, peer in enumerate(herd.clients):
        names = [SERVICES[(number + index) % len(SERVICES)] for index in range(10)]
        arrived.append((peer, Subscribe([Want(name, Scope.DATA_CENTER) for name in names])))
    arrived.append((herd.clients[0], Ping()))
    began = herd.outbox.time
    (answered,) = herd.read(arrived)
    reading = len(herd.clients) * READ_SECONDS
    assert answered - began < 2 * reading
    assert herd.outbox.pushes < 10 * len(herd.clients) / 4
    herd.outbox.end_turn()
    assert herd.outbox.pushes == 10 * len(herd.clients)
    assert herd.outbox.longest < TURN_SECONDS + 2 * PUSH_SECONDS + 10 * WANT_SECONDS


def test_one_subscription_on_a_quiet_server_is_answered_when_the_turn_ends() -> None:
    herd = Herd(1)
    herd.core.handlers.messages[Subscribe](herd.clients[0], Subscribe([Want(SERVICES[0], Scope.DATA_CENTER)]))
    herd.outbox.end_one_turn()
    assert herd.outbox.pushes == 1


@pytest.mark.parametrize("is_known", [False, True])
def test_a_client_that_subscribes_to_very_many_services_takes_no_long_turn(is_known: bool) -> None:
    herd = Herd(1)
    digests = {name: content_digest(at(name)) if is_known else 0 for name in SERVICES}
    wants = [Want(name, Scope.DATA_CENTER, 7 if is_known else 0, digests[name]) for name in SERVICES]
    herd.read(deque([(herd.clients[0], Subscribe(wants))]))
    herd.outbox.end_turn()
    assert herd.outbox.pushes == len(SERVICES)
    assert herd.outbox.longest < TURN_SECONDS + 2 * PUSH_SECONDS
