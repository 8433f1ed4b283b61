"""Trouble that does not end: nothing grows with the time that it takes, and everybody gets a turn."""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from msgspec import structs
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import Scope, Want
from slotreeve_protocol.leases import lease_record
from slotreeve_protocol.meta_messages import View
from slotreeve_protocol.slot_messages import Access, Compare, Compared, Known, SlotDifference, SlotInterest, SlotWrite
from slotreeve_servers.data.announcing.interest import SessionInterests
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.endings.ending import Ending, EndingEvent, HeldLease
from slotreeve_servers.data.endings.ending_rounds import EndingRounds
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.node.records import SlotStore
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.clients.session_list import SessionList
from slotreeve_servers.session.push.due_pushes import DuePushes
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.push.push import PushRules
from slotreeve_servers.session.records.further_copies import FurtherCopies
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.records.writes import WriteBatch
from slotreeve_servers.session.settings import SessionSettings

from tests.servers import data_scene
from tests.servers.core_scenes import node
from tests.servers.endings_scene import SESSION_1, SESSION_2, EndingsScene
from tests.servers.endings_scene import record as record_of
from tests.servers.recording_outbox import RecordingOutbox, a_peer
from tests.servers.test_writes import Scene, record

# --- who gets a turn -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("light", [1, 50])
def test_what_a_client_sends_again_gets_through_beside_others_that_publish_a_little_all_the_time(light: int) -> None:
    scene, marks = Scene(), list[str]()
    others = [ConnectedClient(a_peer(f"client-{number}", Role.CLIENT)) for number in range(light)]
    for each in others:
        each.is_replaying = False
    back = ConnectedClient(a_peer("back", Role.CLIENT))
    number = 0

    def publish() -> None:
        nonlocal number
        for each in others:
            scene.writes.submit(1, record(number), 1, each, number)
            number += 1
        scene.outbox.end_turn()

    for _ in range(4):  # as many messages as may be on their way
        publish()
    scene.writes.submit(0, record(10_000), 1, back, 1)
    scene.outbox.end_turn()
    scene.writes.submit_lost(0, record(10_000))
    scene.writes.when_stored([0], lambda: marks.append("back"))
    for _ in range(20):
        publish()
        scene.answer()
    assert (back.waiting, marks, scene.writes.departing) == (0, ["back"], 0)


def test_a_loss_and_a_mark_get_through_although_others_leave_all_the_time() -> None:
    scene, marks, told, number = Scene(), list[str](), list[Publisher](), 0
    peers = [ConnectedClient(a_peer(f"client-{each}", Role.CLIENT)) for each in range(500)]
    for peer in peers:
        peer.is_replaying = False

    def come_and_go(count: int) -> None:
        nonlocal number
        for _ in range(count):
            scene.writes.submit(0, record(number), 1, peers[number % 500], number)
            scene.writes.submit_gone(0, record(number).tombstone())
            number += 1
        scene.outbox.end_turn()

    come_and_go(3_000)
    scene.writes.submit_lost(0, record(1))
    scene.outbox.end_turn()
    scene.writes.when_stored([0], lambda: marks.append("back"))
    for _ in range(60):
        batches = scene.answer().batches
        told += [one for batch in batches for one in batch.lost]
        come_and_go(min(sum(len(batch.records) for batch in batches), sum(len(batch.gone) for batch in batches)))
    assert (marks, told) == (["back"], [record(1)])


@pytest.mark.parametrize("heavy", [1, 1 << 20])
def test_records_departures_and_losses_go_out_in_turn_however_heavy_each_is(heavy: int) -> None:
    client, number, batch, data = ConnectedClient(a_peer("client", Role.CLIENT)), 0, WriteBatch(), (b"x" * heavy,)
    for _ in range(20):
        for _ in range(300):
            number += 1
            record = Publisher(f"r{number}", "s", 1, 1, "session-1@1", "", data)
            batch.records.append(record)
            batch.clients.append(client)
            batch.sequences.append(number)
            batch.gone.append(record.tombstone())
            batch.weight += record.weight + 1
            batch.add_lost(structs.replace(record, register_id=f"l{number}"))
        first = batch.split(0.0)
        assert len(first.records) == len(first.gone) == len(first.lost) == (167 if heavy == 1 else 1)
        assert first.weight == sum(each.weight for each in (*first.records, *first.gone, *first.lost.values()))
        assert batch.weight == sum(each.weight for each in (*batch.records, *batch.gone, *batch.lost.values()))


class Told:
    """Counts the reports of each slot."""

    def __init__(self) -> None:
        self.reports = Counter[int]()

    def submit_lost(self, slot: int, _record: Publisher) -> None:
        self.reports[slot] += 1


def test_the_further_copies_of_one_slot_are_reported_while_the_link_of_another_flaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, told = Scene(), Told()
    scene.outbox.turn_steps = 5
    monkeypatch.setattr(scene.writes, "submit_lost", told.submit_lost)
    stores = {0: SlotStore(), 1: SlotStore()}
    copies = FurtherCopies(scene.outbox, lambda name: int(name[1:]), stores, scene.writes)
    for slot, store in stores.items():
        for number in range(100):
            one = Publisher(f"client{number}-0", f"s{slot}", 1, 1, "session-1@1", "", (b"x",))
            store.put(one, 0.0)
            copies.keep(slot, one)
    told.reports.clear()
    copies.report_again([0])
    for _ in range(20):
        copies.report_again([1])
        for _ in range(10):
            scene.outbox.end_one_turn()
    assert told.reports[0] == 100


def test_a_leader_that_comes_while_further_copies_are_reported_to_the_one_before_gets_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, told = Scene(), Told()
    monkeypatch.setattr(scene.writes, "submit_lost", told.submit_lost)
    store = SlotStore()
    copies = FurtherCopies(scene.outbox, lambda _name: 0, {0: store}, scene.writes)
    for number in range(100):
        one = Publisher(f"client{number}-0", "s", 1, 1, "session-1@1", "", (b"x",))
        store.put(one, 0.0)
        copies.keep(0, one)
    told.reports.clear()
    scene.outbox.turn_steps = 5
    copies.report_again([0])
    scene.outbox.end_one_turn()
    assert 0 < (before := told.reports[0]) < 100
    copies.report_again([0])
    for _ in range(100):
        scene.outbox.end_one_turn()
    assert told.reports[0] >= before + 100


def test_every_client_gets_a_list_of_session_servers_although_it_changes_before_all_have_the_last_one() -> None:
    outbox = RecordingOutbox(turn_steps=10)
    sessions, clients = SessionList(outbox), [a_peer(f"client-{number}", Role.CLIENT) for number in range(100)]
    for change in range(10):
        names = [f"session-{number}" for number in range(2 + change % 2)]
        sessions.changed([Node(name, Role.SESSION, f"{name}:1", name) for name in names], "", clients)
        for _ in range(5):
            outbox.end_one_turn()
    assert {effect.peer for effect in outbox.take("sent")} == set(clients)


# --- what does not grow ----------------------------------------------------------------------------------------------


def test_a_service_that_no_leader_was_told_of_is_forgotten_with_its_last_subscriber() -> None:
    outbox, routes = RecordingOutbox(), Routes()
    routes.apply(SlotTable(1, (Slot(0, "data-1", 1, ()),)))
    orders = OrdersInForce("session-1")
    rules = PushRules(outbox, SessionSettings(), "", orders, None, None, DuePushes(outbox, orders))
    interests, client = Interests(routes, rules), ConnectedClient(a_peer("client", Role.CLIENT))
    for number in range(100):
        interests.subscribe(client, Want(f"s{number}", Scope.DATA_CENTER, 0, 0), 0)
        interests.unsubscribe(client, f"s{number}")
        outbox.end_turn()
    assert interests._unwanted == {}


def test_an_ended_lease_leaves_nothing_until_the_time_at_which_it_would_have_ended() -> None:
    scene = EndingsScene()
    for number in range(100):
        one = lease_record(f"l{number}", "s", 1, 86_400_000, "", (b"x",))
        lease = HeldLease(scene.slot, one, scene.outbox.attended() + 86_400.0)
        scene.endings.watch(lease)
        scene.endings.move(lease, EndingEvent.SENT_AGAIN)
        scene.outbox.time += 1.0
    assert not any(scene.endings._wheel._buckets.values())


def test_who_says_that_it_leaves_costs_no_look_at_all_that_the_brake_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    held, looks, original = 10_000, Counter[str](), EndingRounds._is_due
    scene = EndingsScene(clients=held)
    scene.freeze(True)
    scene.lose(*scene.records)
    scene.until(8.0)
    leaving = [record_of(f"leaves{number}") for number in range(20)]
    scene.put(*leaving)

    def counted(self: EndingRounds, ending: Ending) -> bool:
        looks["all"] += 1
        return original(self, ending)

    monkeypatch.setattr(EndingRounds, "_is_due", counted)
    for one in leaving:
        scene.say(one)
        scene.settle()
    assert len(scene.left) == held
    assert looks["all"] <= 3 * held


def test_work_that_fails_again_and_again_is_tried_at_the_same_pace_however_often_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outbox, runs, asked = RecordingOutbox(), Counter[int](), 0
    at_turns_end = outbox.at_turns_end

    def tolerated(action: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            action()

    monkeypatch.setattr(outbox, "at_turns_end", lambda action: at_turns_end(partial(tolerated, action)))

    def work() -> Iterator[None]:
        runs[asked // 40] += 1
        yield from ()
        raise OSError("the disk is full")

    while asked < 160:
        outbox.pace(work)
        outbox.end_turn()
        outbox.advance(0.25)
        asked += 1
    assert runs[0] > 10
    assert runs[3] <= 2 * runs[0]


def test_a_session_server_that_starts_again_and_again_leaves_nothing_in_the_slots() -> None:
    outbox = RecordingOutbox()
    core = DataCore(outbox, node("data-1"), DataSettings(), 1.0)
    revision = 0

    def view(*sessions: Node) -> None:
        nonlocal revision
        revision += 1
        core.membership.learn(View(1, revision, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [core._node], [*sessions]))
        outbox.end_turn()

    for life in range(1, 20):
        peer = a_peer("session-1", Role.SESSION, life)
        view(Node(peer.node, peer.role, "x:1", peer.process_id))
        core.opened(peer)
        outbox.end_turn()
        while any(isinstance(request.message, Compare) for request in outbox.requests):
            outbox.answer(Compared([SlotDifference(0, Access.ACCEPT, 1, True, {})]), kind=Compare)
        assert core.slots.held[0].compared == {peer.process_id}
        core.closed(peer, "killed")
        view()
    assert core.slots.held[0].compared == set()


def test_a_dead_session_server_without_records_costs_no_look_at_those_of_the_others() -> None:
    steps = []
    for clients in (10, 1_000):
        scene, dead = EndingsScene(clients=clients), a_peer("session-3", Role.SESSION)
        scene.sessions.opened(dead)
        scene.view(SESSION_1, SESSION_2, dead)
        scene.outbox.end_turn()
        before = scene.outbox.steps
        scene.dies(dead, SESSION_1, SESSION_2)
        scene.outbox.end_turn()
        steps.append(scene.outbox.steps - before)
    assert steps[0] == steps[1]


def test_changes_are_not_gathered_while_a_slot_does_not_serve() -> None:
    scene = data_scene.Scene()
    scene.slots.apply(SlotTable(2, (Slot(0, "data-1", 2, ()),)))
    scene.interests.declare(data_scene.SESSION_1, SlotInterest(0, 2, [Known("s", 0, 0)], []))
    for number in range(100):
        one = data_scene.record(f"client-{number}-0")
        scene.store(scene.slot, SlotWrite(0, 2, [one], [], []))
        scene.store(scene.slot, SlotWrite(0, 2, [], [one.tombstone()], []))
    assert scene.slot.tracked["s"].pending == {}


class Name(str):
    """A text of which one can see whether anybody has it."""


def test_what_session_servers_watch_in_slots_that_move_away_is_forgotten() -> None:
    scene, names = data_scene.Scene(), list[weakref.ref[Name]]()
    for epoch in range(1, 20):
        name = Name(f"s{epoch}")
        names.append(weakref.ref(name))
        answer = scene.interests.declare(data_scene.SESSION_1, SlotInterest(0, epoch, [Known(name, 0, 0)], []))
        assert answer.access in {Access.ACCEPT, Access.MIGRATING}
        del name
        scene.slots.apply(SlotTable(2 * epoch, (Slot(0, "data-2", epoch, ()),)))
        scene.slots.apply(SlotTable(2 * epoch + 1, (Slot(0, "data-1", epoch + 1, ()),)))
    assert [known for name in names if (known := name()) is not None] == []


def test_a_repair_costs_no_look_at_all_that_its_session_server_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox, looks = RecordingOutbox(), list[set[str]]()
    core, peer = DataCore(outbox, node("data-1"), DataSettings(), 1.0), a_peer("session-1", Role.SESSION)
    monkeypatch.setattr(SessionInterests, "announce", lambda _self, _slot, processes: looks.append(set(processes)))
    sessions = [Node(peer.node, peer.role, "x:1", peer.process_id)]
    core.membership.learn(View(1, 1, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [core._node], sessions))
    core.opened(peer)
    outbox.end_turn()
    for _ in range(5):
        outbox.answer(Compared([SlotDifference(0, Access.ACCEPT, 1, True, {})]), kind=Compare)
        core._repair()
        outbox.end_turn()
    assert looks == [{peer.process_id}]


def test_a_data_server_without_a_slot_forgets_which_clients_have_left() -> None:
    scene = EndingsScene()
    scene.table("data-2", epoch=2)
    for number in range(60):
        scene.tell(SESSION_1, left=(f"client-{number}",))
        scene.until(scene.now + 1.0)
    assert len(scene.endings.presence._left_at) <= 2 * scene.endings.grace_seconds + 1
