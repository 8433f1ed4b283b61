"""When a session server is cut off from slot leaders, and how it sends its clients away."""

from __future__ import annotations

from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import Redirect
from slotreeve_protocol.meta_messages import Heartbeat, LeaseGranted, View
from slotreeve_protocol.slot_messages import Access, Answers, Confirm, SlotAnswer
from slotreeve_servers.node.membership import LEASE_HEARTBEATS, Membership
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.isolation import (
    ARRIVAL_SECONDS,
    ARRIVAL_SHARE,
    FIRST_CLIENTS,
    LOOK_SECONDS,
    PATIENCE,
    PATIENCE_WITHOUT_LEASE,
    Isolation,
)
from slotreeve_servers.session.records.routes import Routes

from tests.servers.recording_outbox import RecordingOutbox, a_peer
from tests.servers.world import NoMember

FIRST, SECOND = a_peer("data-1", Role.DATA), a_peer("data-2", Role.DATA)
META = a_peer("meta-1", Role.META)
HEARTBEAT_SECONDS = 1.0


def a_node(name: str) -> Node:
    return Node(name, Role.SESSION, f"{name}:1", f"{name}@1")


class Server:
    """A session server's membership, clients and routes. Each leader has one slot and answers or not.

    ``sent`` holds the number of clients that each look sends away; ``lease`` says whether heartbeats are answered.
    """

    def __init__(self, clients: int = 0) -> None:
        self.outbox, self.routes = RecordingOutbox(), Routes()
        table = SlotTable(7, (Slot(0, "data-1", 5, ()), Slot(1, "data-2", 6, ())))
        self.routes.apply(table)
        self.routes.opened(FIRST)
        self.routes.opened(SECOND)
        self.membership = Membership(self.outbox, a_node("session-1"), HEARTBEAT_SECONDS, NoMember())
        self.membership.view = View(1, 1, table, [], [a_node("session-1"), a_node("session-2")])
        self.membership.opened(META)
        self.membership.start()
        self.clients: dict[Peer, ConnectedClient] = {}
        newer_view = NewerView(self.outbox, self.membership)
        self.isolation = Isolation(self.outbox, self.routes, self.membership, newer_view, self.clients, "session-1@1")
        self.lease = True
        self.others = ["session-2:1"]
        self.sent: list[int] = []
        self.silent: set[str] = set()
        self.access = Access.ACCEPT
        self.arrive(clients)

    def arrive(self, count: int) -> None:
        """So many clients connect."""
        for _ in range(count):
            peer = a_peer(f"client-{len(self.clients)}", Role.CLIENT)
            self.clients[peer] = ConnectedClient(peer, self.outbox.attended())

    def run(self, seconds: float) -> None:
        """Look as often as a server does; the leaders that are not silent answer at once."""
        for _ in range(round(seconds / LOOK_SECONDS)):
            self.outbox.advance(LOOK_SECONDS)
            before = len(self.outbox.messages(Redirect))
            self.isolation.look()
            redirects = self.outbox.messages(Redirect)[before:]
            assert all(isinstance(sent, Redirect) and sent.addresses == self.others for sent in redirects)
            self.sent.append(len(redirects))
            self.answer()

    def lose_lease(self) -> None:
        """The meta leader answers no more."""
        self.lease = False
        self.run((LEASE_HEARTBEATS + 1) * HEARTBEAT_SECONDS)

    def answer(self) -> None:
        """The meta leader, and the slot leaders that are not silent, answer what was asked."""
        for request in list(self.outbox.requests):
            if isinstance(request.message, Heartbeat):
                self.outbox.requests.remove(request)
                if self.lease:
                    request.answered(LeaseGranted(1, 3.0, None), None)
            elif request.peer.node not in self.silent:
                assert isinstance(request.message, Confirm)
                answers = [SlotAnswer(asked.slot, self.access, 0) for asked in request.message.slots]
                self.outbox.requests.remove(request)
                request.answered(Answers(answers), None)


def test_a_server_whose_leaders_answer_keeps_its_clients() -> None:
    server = Server(clients=3)
    server.run(60)
    server.lose_lease()
    server.run(60)
    assert sum(server.sent) == 0
    assert server.isolation.since is None


def test_a_silent_leader_is_waited_for_longer_under_a_lease() -> None:
    for has_lease, patience in ((True, PATIENCE), (False, PATIENCE_WITHOUT_LEASE)):
        server = Server(clients=3)
        server.run(5)
        if not has_lease:
            server.lose_lease()
        server.silent = {"data-2"}
        server.run(patience)
        assert sum(server.sent) == 0
        server.run(2 * LOOK_SECONDS)
        assert sum(server.sent) == 3 == server.isolation.sent_away


def test_a_server_without_others_keeps_its_clients() -> None:
    server = Server(clients=3)
    server.membership.view = View(1, 1, SlotTable(), [], [a_node("session-1")])
    server.silent = {"data-1", "data-2"}
    server.run(60)
    assert sum(server.sent) == 0 == server.isolation.sent_away


def test_where_the_view_names_no_other_server_but_misses_one_the_clients_are_sent_to_those_they_know() -> None:
    server = Server(clients=3)
    server.others = []
    server.membership.view = View(1, 1, SlotTable(), [], [], missing=["session-1@1"])
    server.silent = {"data-1", "data-2"}
    server.run(60)
    assert sum(server.sent) == 0
    server.membership.view = View(1, 2, SlotTable(), [], [], missing=["session-1@1", "session-2@1"])
    server.run(2 * LOOK_SECONDS)
    assert sum(server.sent) == 3


def test_a_leader_without_a_link_is_not_reached() -> None:
    server = Server(clients=3)
    server.lose_lease()
    server.routes.closed(SECOND)
    server.run(PATIENCE_WITHOUT_LEASE + 2 * LOOK_SECONDS)
    assert sum(server.sent) == 3


def test_a_former_leader_confirms_nothing_where_no_lease_vouches_for_the_table() -> None:
    server = Server(clients=3)
    server.access = Access.MOVED
    server.run(60)
    assert sum(server.sent) == 0, "under a lease the table is the newest one"
    server.lose_lease()
    server.run(PATIENCE_WITHOUT_LEASE + 2 * LOOK_SECONDS)
    assert sum(server.sent) == 3


def test_a_slot_that_is_not_served_yet_has_a_leader() -> None:
    server = Server(clients=3)
    server.access = Access.MIGRATING
    server.lose_lease()
    server.run(60)
    assert sum(server.sent) == 0


def test_twice_as_many_clients_go_with_each_look_and_none_once_the_leader_answers() -> None:
    server = Server(clients=20 * FIRST_CLIENTS)
    server.lose_lease()
    server.silent = {"data-1"}
    while not sum(server.sent):
        server.run(LOOK_SECONDS)
    server.run(2 * LOOK_SECONDS)
    assert server.sent[-3:] == [FIRST_CLIENTS, 2 * FIRST_CLIENTS, 4 * FIRST_CLIENTS]
    server.silent = set()
    server.answer()
    server.run(60)
    assert sum(server.sent) == 7 * FIRST_CLIENTS
    assert server.isolation.since is None


def test_no_client_is_sent_away_twice() -> None:
    server = Server(clients=5)
    server.silent = {"data-1"}
    server.run(120)
    assert sum(server.sent) == 5


def test_a_client_that_arrives_meanwhile_stays_longer_the_longer_the_server_has_been_cut_off() -> None:
    server = Server(clients=1)
    server.lose_lease()
    server.silent = {"data-1", "data-2"}
    while not sum(server.sent):
        server.run(LOOK_SECONDS)
    for cut_off_seconds in (2.0, 100.0):
        server.run(cut_off_seconds)
        assert server.isolation.since is not None
        arrived_at, before = server.outbox.time, sum(server.sent)
        server.arrive(1)
        while sum(server.sent) == before:
            server.run(LOOK_SECONDS)
        stayed, lasted = server.outbox.time - arrived_at, server.outbox.attended() - server.isolation.since
        assert 0 <= stayed - max(ARRIVAL_SECONDS, ARRIVAL_SHARE * lasted) <= LOOK_SECONDS


def test_a_frozen_server_does_not_take_its_own_lateness_for_a_cut() -> None:
    server = Server(clients=3)
    server.lose_lease()
    server.outbox.time += 60
    server.outbox.unattended += 60
    server.run(5)
    assert sum(server.sent) == 0


def test_an_answer_that_took_long_confirms_as_well() -> None:
    server = Server(clients=3)
    server.lose_lease()
    for _ in range(10):
        server.silent = {"data-1"}
        server.run(PATIENCE_WITHOUT_LEASE - LOOK_SECONDS)
        server.silent = set()
        server.answer()
    assert sum(server.sent) == 0


def test_a_leader_is_asked_again_only_when_it_has_answered() -> None:
    server = Server()
    server.silent = {"data-1"}
    server.run(5)
    assert len([request for request in server.outbox.requests if request.peer is FIRST]) == 1


def test_who_is_cut_off_once_more_sends_a_few_clients_first_again() -> None:
    server = Server(clients=200)
    server.silent.add("data-1")
    server.run(PATIENCE + 2.0)
    sent = [number for number in server.sent if number]
    assert sent[:2] == [FIRST_CLIENTS, 2 * FIRST_CLIENTS]
    server.silent.clear()
    server.run(PATIENCE + 2.0)
    server.sent.clear()
    server.silent.add("data-1")
    server.run(PATIENCE + 2.0)
    assert next(number for number in server.sent if number) == FIRST_CLIENTS


def test_a_silent_leader_that_leads_nothing_any_more_sends_nobody_away() -> None:
    server = Server(clients=3)
    server.run(5)
    server.silent = {"data-2"}
    server.run(PATIENCE / 2)
    server.routes.apply(SlotTable(8, (Slot(0, "data-1", 5, ()), Slot(1, "data-1", 8, ()))))
    server.run(2 * PATIENCE)
    assert sum(server.sent) == 0
    assert server.isolation.since is None
