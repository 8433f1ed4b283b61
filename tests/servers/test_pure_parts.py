"""The pure parts of the servers against dumb twins, which keep whole histories and scan them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.meta_messages import ConfigEntry, Heartbeat, LeaderIs, Stopping, View
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.meta.members.heartbeats import LastHeartbeats
from slotreeve_servers.node.membership import Holdings, Membership
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.records.routes import Routes

from tests.servers.recording_outbox import RecordingOutbox, a_peer

NAMES = st.sampled_from("abc")
SETS = st.frozensets(NAMES)


def node(name: str, role: Role = Role.DATA) -> Node:
    return Node(name, role, f"{name}:1", f"{name}@1")


# --- session servers and orphans -------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from(["view", "open", "close"]), SETS, st.integers(0, 5)), max_size=20))
def test_session_servers_are_the_members_and_the_open_connections(steps: list[tuple[str, frozenset[str], int]]) -> None:
    sessions = SessionServers()
    members: list[str] = []
    connections: list[Peer] = []
    for kind, names, number in steps:
        if kind == "view":
            members = [f"{name}@1" for name in sorted(names)]
            sessions.view_changed([node(name, Role.SESSION) for name in sorted(names)])
        elif kind == "open":
            peer = a_peer("abc"[number % 3], Role.SESSION, 1 + number // 3)
            connections.append(peer)
            sessions.opened(peer)
        elif connections:
            sessions.closed(connections.pop(number % len(connections)))
        strangers = {peer.process_id: peer for peer in connections if peer.process_id not in members}
        assert sessions.connected_strangers() == strangers
        for name in "abc":
            newest = next((c for c in reversed(connections) if c.process_id == f"{name}@1"), None)
            assert sessions.newest(f"{name}@1") is newest
        expected = {m: next((c for c in reversed(connections) if c.process_id == m), None) for m in members}
        assert {key: peer for key, peer in sessions.with_clients().items() if key in members} == expected
        assert all(m in sessions.members for m in members)


@given(st.lists(st.tuples(SETS, SETS), max_size=20))
def test_a_process_is_found_to_be_gone_exactly_once_for_each_time_that_it_is_away(
    steps: list[tuple[frozenset[str], frozenset[str]]],
) -> None:
    """The twin notes which processes were members once, and which of them were away at the last look."""
    sessions = SessionServers()
    alive: set[str] = set()
    known: set[str] = set()
    away: set[str] = set()
    for members, links in steps:
        before, alive = alive, {f"{name}@1" for name in members}
        back = sessions.view_changed([node(name, Role.SESSION) for name in sorted(members)])
        assert sorted(back) == sorted(known & alive)
        known, away = (known | before) - alive, away - alive
        linked = {f"{name}@1" for name in links}
        found, back = sessions.look(linked.__contains__)
        assert found == sorted(known - linked - away)
        assert back == sorted(away & linked)
        away = known - linked
        assert sessions.gone == away


# --- routes ----------------------------------------------------------------------------------------------------------

TABLES = st.lists(st.tuples(st.none() | NAMES, st.integers(1, 3)), min_size=3, max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["table", "open", "close"]), TABLES, st.integers(0, 5)), max_size=20))
def test_routes_lead_to_the_newest_link_of_the_leader_in_the_newest_table(
    steps: list[tuple[str, list[tuple[str | None, int]], int]],
) -> None:
    routes = Routes()
    rows: list[tuple[str | None, int]] = []
    links: list[Peer] = []
    newest: dict[str, Peer] = {}
    for number, (kind, table, which) in enumerate(steps):
        if kind == "table":
            slots = tuple([Slot(i, leader, epoch, ()) for i, (leader, epoch) in enumerate(table)])
            changed = routes.apply(SlotTable(number, slots))
            assert changed == [i for i in range(3) if not rows or rows[i] != table[i]]
            rows = table
        elif kind == "open":
            peer = a_peer("abc"[which % 3], Role.DATA)
            links.append(peer)
            newest[peer.node] = peer
            routes.opened(peer)
        elif links:
            gone = links.pop(which % len(links))
            if newest.get(gone.node) is gone:
                del newest[gone.node]
            routes.closed(gone)
        for i in range(4):
            leader = rows[i][0] if i < len(rows) else None
            expected = (newest[leader], rows[i][1]) if leader in newest and leader is not None else None
            assert routes.leader_of(i) == expected
        for name in "abc":
            assert routes.led_by(name) == [i for i, (leader, _) in enumerate(rows) if leader == name]


# --- orders ----------------------------------------------------------------------------------------------------------

ORDERS = st.builds(Orders, SETS, st.booleans(), SETS, SETS)


@given(st.lists(st.one_of(ORDERS, st.just(b"nonsense"), st.none()), max_size=8), NAMES)
def test_the_newest_readable_orders_are_in_force(given_orders: list[Orders | bytes | None], name: str) -> None:
    in_force, twin = OrdersInForce(name), Orders()
    peer = a_peer(name, Role.CLIENT)
    for number, value in enumerate(given_orders):
        encoded = value.encode() if isinstance(value, Orders) else value
        changed = in_force.take(ConfigEntry(ORDERS_KEY, encoded, number + 1))
        before = twin
        if not isinstance(value, bytes):
            twin = value if value is not None else Orders()
        assert changed is (before != twin)
        assert in_force.is_banned is (name in twin.banned)
        assert in_force.may_push(peer) is (not twin.push_stopped or name in twin.push_to)
        assert in_force.is_off(peer) is (name in twin.clients_off)


# --- heartbeats ------------------------------------------------------------------------------------------------------

HEARTBEATS = st.builds(
    lambda name, epoch, unsettled, stopping: Heartbeat(node(name), 0, epoch, sorted(unsettled), stopping),
    NAMES,
    st.integers(1, 2),
    st.frozensets(st.integers(0, 2)),
    st.sampled_from(list(Stopping)),
)


@given(st.lists(HEARTBEATS | NAMES, max_size=15), SETS)
def test_the_last_heartbeat_of_each_server_counts(steps: list[Heartbeat | str], banned: frozenset[str]) -> None:
    """The twin keeps every heartbeat and looks for the last one."""
    last, kept = LastHeartbeats(), list[Heartbeat]()
    for step in steps:
        if isinstance(step, str):
            last.forget(step)
            kept = [h for h in kept if h.node.name != step]
        else:
            before = next((h for h in reversed(kept) if h.node.name == step.node.name), None)
            kept.append(step)
            differs = before is None or (before.table_epoch, before.unsettled, before.stopping) != (
                *(step.table_epoch, step.unsettled, step.stopping),
            )
            assert last.take(step) is differs
        newest = {h.node.name: h for h in kept}
        under = {n: set(h.unsettled) for n, h in newest.items() if h.table_epoch == 1}
        assert last.reports(SlotTable(1, ())).unsettled == under
        assert last.reports(SlotTable(1, ()), "abc").silent == set("abc") - newest.keys()
        leaving = last.leaving(banned, ["elsewhere"])
        assert leaving.for_good == {n for n, h in newest.items() if h.stopping is Stopping.FOR_GOOD} | banned
        assert leaving.for_a_restart == {n for n, h in newest.items() if h.stopping is Stopping.FOR_A_RESTART}


# --- membership ------------------------------------------------------------------------------------------------------


class CountingOwner:
    """Writes down the revisions it was given."""

    def __init__(self) -> None:
        self.revisions: list[int] = []

    def view_changed(self, old: View, view: View) -> None:
        assert view.revision > old.revision
        self.revisions.append(view.revision)

    def holdings(self) -> Holdings:
        return Holdings()

    def lease_granted(self, leader: Peer, granted: object) -> None:
        """Nothing to do."""


STEPS = st.lists(
    st.tuples(st.sampled_from(["view", "leader", "open", "close"]), NAMES, st.integers(0, 4), st.integers(1, 9)),
    max_size=25,
)


@given(STEPS)
def test_views_only_rise_and_the_leader_is_the_one_of_the_highest_term_or_of_a_newer_view(
    steps: list[tuple[str, str, int, int]],
) -> None:
    """The twin follows the rules one at a time: the first leader named under a higher term, or another one under an
    equal term, or the sender of a newer view, while its connection is open."""
    outbox, owner = RecordingOutbox(), CountingOwner()
    membership = Membership(outbox, node("data-1"), 1.0, owner)
    peers: dict[str, Peer] = {}
    term, leader, revision = 0, "", 0
    for kind, name, at_term, at_revision in steps:
        if kind == "open":
            peers[name] = a_peer(name, Role.META)
            membership.opened(peers[name])
        elif name not in peers:
            continue
        elif kind == "close":
            membership.closed(peers.pop(name), "lost")
            leader = "" if leader == name else leader
        elif kind == "leader":
            membership.handlers.messages[LeaderIs](peers[name], LeaderIs(at_term, name, None))
            if at_term >= term:
                term, leader = at_term, name
        else:
            membership.handlers.messages[View](peers[name], View(at_term, at_revision, SlotTable(), [], []))
            if at_term >= term or at_revision > revision:
                term, leader = at_term, name
            if at_revision > revision:
                revision = at_revision
                assert owner.revisions[-1] == revision
        outbox.end_turn()
        assert membership.view.revision == revision
        assert membership.leader is peers.get(leader)
    assert owner.revisions == sorted(set(owner.revisions))
