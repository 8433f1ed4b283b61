"""Nothing that concerns a large service, or very many of them, takes long at once. What it takes is counted in function
calls, because time depends on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FrameType

from slotreeve.clock import Timer
from slotreeve.model.datum import content_digest
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_events.history import NO_REASONS
from slotreeve_protocol.client_messages import Scope, Want
from slotreeve_protocol.datum_copy import DatumCopy, Fit
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Changed,
    DatumChange,
    DeclareInterest,
    Known,
    Presence,
    SlotAnswer,
    SlotDigests,
    SlotInterest,
    SlotWrite,
    Write,
)
from slotreeve_servers.data.announcing.changes import Changes
from slotreeve_servers.data.announcing.interest import SessionInterests
from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.endings.lost_clients import LostClients
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.deltas import delta_parts
from slotreeve_servers.node.digests import FANOUT, PartedService
from slotreeve_servers.node.records import SlotStore
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.push.due_pushes import DuePushes
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.push.push import PushRules
from slotreeve_servers.session.records.further_copies import FurtherCopies
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.records.writes import Writes
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer
from tests.servers.sync_digest import sync_digest

COUNT = 50_000
AT_ONCE = 200
"""Records in one message."""
MOST_CALLS = 100_000
"""Between the calls that a message of so many records needs, and those that all records need."""
PART_BYTES = 8_000
CALL_SECONDS = 100e-9
"""So long does each call take for the clock that ends a turn."""


class Calls:
    """Counts the functions that are called, those of the interpreter too, while it is open."""

    def __init__(self) -> None:
        self.count = 0

    def seen(self, frame: FrameType, event: str, argument: object) -> None:
        self.count += event in ("call", "c_call")

    def __enter__(self) -> Calls:
        sys.setprofile(self.seen)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)


def calls(action: Callable[[], object]) -> int:
    """Number of functions that ``action`` calls."""
    with Calls() as counted:
        action()
    return counted.count


def record(number: int, version: int = 1) -> Publisher:
    return Publisher(f"r{number}", "s", version, 1, "session-1@1", "", (f"10.0.0.1:{number}".encode(),))


ALL = [record(number) for number in range(COUNT)]


def held(leads: bool) -> HeldSlot:
    slot = HeldSlot(Slot(0, "data-1", 1, ()), leads, SlotStore(PART_BYTES))
    for start in range(0, COUNT, AT_ONCE):
        slot.apply(SlotWrite(0, 1, ALL[start : start + AT_ONCE], [], []), 0.0)
    return slot


def test_a_service_grows_large_without_a_turn_that_hashes_all_of_it() -> None:
    store = SlotStore(PART_BYTES)
    slot = HeldSlot(Slot(0, "data-1", 1, ()), True, store)
    most = 0
    for start in range(0, COUNT, AT_ONCE):
        write = SlotWrite(0, 1, ALL[start : start + AT_ONCE], [], [])
        most = max(most, calls(partial(slot.apply, write, 0.0)))
    assert most < MOST_CALLS
    for number in range(200):  # changes and comparisons go on until the parts are small
        store.put(record(number, 2), 0.0)
        most = max(most, calls(store.digests))
    assert most < MOST_CALLS
    _, parts = store.digests()
    assert parts["s"].count == FANOUT**3
    assert sum(parts["s"].digests.values()) & ((1 << 64) - 1) == sync_digest(store.records())


def test_a_new_leader_does_not_hash_a_large_service_that_it_followed() -> None:
    slot = held(leads=False)
    slot.leads = True
    tracked = []
    slot.track("s")
    assert calls(lambda: tracked.append(slot.hashed("s"))) < MOST_CALLS
    assert tracked[0].digest == content_digest(ALL)


def test_a_server_with_larger_parts_than_the_other_does_not_hash_all_for_the_comparison() -> None:
    mine, other = SlotStore(PART_BYTES * FANOUT), SlotStore(PART_BYTES)
    for one in ALL:
        mine.put(one, 0.0)
        other.put(one, 0.0)
    for _ in range(30):
        other.put(record(0, 2), 0.0)
        asked = SlotDigests(0, 1, *other.digests())
        assert calls(partial(mine.difference, asked, 100_000)) < MOST_CALLS
    found = mine.difference(SlotDigests(0, 1, *other.digests()), 100_000)
    assert [record(0)] == [one for part in found.parts for one in part.records if one.register_id == "r0"]


def parts_of(version: int, changed: list[Publisher]) -> list[DatumChange]:
    digest = content_digest(changed)
    return [
        DatumChange("s", 0, version, digest, part.changed, part.removed, part.more)
        for part in delta_parts(changed, [], 20_000)
    ]


def test_the_last_part_of_a_large_service_is_applied_as_fast_as_the_others() -> None:
    copy, most = DatumCopy(), 0
    for part in parts_of(1, ALL):
        fit = copy.fit(part)
        take = copy.gather if fit is Fit.PART else copy.apply
        most = max(most, calls(partial(take, part)))
    assert (len(copy.records), copy.version) == (COUNT, 1)
    assert most < COUNT / 5


def test_parts_that_are_divided_piece_by_piece_follow_every_change_meanwhile() -> None:
    """The dumb twin is made of all records at the end."""
    held = {one.register_id: one for one in ALL[:3_000]}
    parted = PartedService(16, held.values())
    parted.divide(64)
    for number in range(0, 3_000, 300):
        gone = held.pop(f"r{number}")
        parted.move(gone, -sync_digest((gone,)), False)
        parted.regroup(held, 1)
        new = record(number + 10_000)
        held[new.register_id] = new
        parted.move(new, sync_digest((new,)), True)
    assert parted.count == 16
    while parted.count == 16:
        parted.regroup(held, 500)
    twin = PartedService(64, held.values())
    assert parted.count == 64
    assert parted.content == content_digest(held.values())
    for session in (None, "session-1@1"):
        assert parted.digests(session) == twin.digests(session)
    assert all(set(parted.members(64, number)) == set(twin.members(64, number)) for number in range(64))


# --- the loss of a large client --------------------------------------------------------------------------------------


class CountingOutbox(RecordingOutbox):
    """Counts the calls of each action. ``most``: of the longest one. They take time as far as it ends turns."""

    most = 0
    counted = Calls()

    def reached(self, at: float) -> bool:
        return super().reached(at - self.counted.count * CALL_SECONDS)

    def at_turns_end(self, action: Callable[[], None]) -> None:
        super().at_turns_end(partial(self.count, action))

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        return super().after(seconds, partial(self.count, action))

    def count(self, action: Callable[[], object]) -> None:
        with Calls() as self.counted:
            action()
        self.most = max(self.most, self.counted.count)


class LargeLoss:
    """data-1 serves slot 0 with the large service of one client at session-1, which is gone. A SlotWriter."""

    def __init__(self) -> None:
        self.outbox, self.slots, self.sessions = CountingOutbox(), HeldSlots("data-1", PART_BYTES), SessionServers()
        self.slots.apply(SlotTable(1, (Slot(0, "data-1", 1, ()),)))
        self.slot = self.slots.held[0]
        self.slot.serve()
        records = [Publisher(f"client-{number}", "s", 1, 1, "session-1@1", "", (b"x",)) for number in range(20_000)]
        self.slot.apply(SlotWrite(0, 1, records, [], []), 0.0)
        rules = DataSettings()
        brake = Brake(rules)
        self.endings = Endings(self.outbox, self.slots, self, self.sessions, rules, brake)
        self.lost_clients = LostClients(self.outbox, self.slots, self, self.sessions, self.endings)
        self.sessions.opened(a_peer("session-2", Role.SESSION))

    def store(self, slot: HeldSlot, write: SlotWrite, reasons: Mapping[str, str] = NO_REASONS) -> None:
        slot.apply(write, self.outbox.now())


def test_the_loss_of_a_client_with_a_large_service_takes_no_long_turn() -> None:
    scene = LargeLoss()
    scene.lost_clients.view_changed([Node("session-1", Role.SESSION, "x:1", "session-1@1")])
    scene.lost_clients.view_changed([])
    for _ in range(40):
        scene.outbox.advance(0.25)
        scene.outbox.count(scene.lost_clients.look)
        scene.outbox.count(scene.endings.look)
        scene.outbox.end_turn()
    assert scene.slot.store.services == {}
    assert scene.outbox.most < MOST_CALLS


def test_a_client_with_a_large_service_that_is_lost_arrives_and_is_lost_again_without_a_long_turn() -> None:
    scene = LargeLoss()
    other = a_peer("session-3", Role.SESSION)
    scene.sessions.opened(other)
    scene.lost_clients.view_changed([Node("session-1", Role.SESSION, "x:1", "session-1@1")])
    scene.lost_clients.view_changed([])
    scene.outbox.end_turn()
    assert scene.endings.held == 20_000
    for told in (Presence(["client"], []), Presence([], ["client"]), Presence(["client"], [])):
        scene.outbox.count(partial(scene.lost_clients.told, other, told))
        scene.outbox.advance(1.0)
        scene.outbox.count(scene.endings.look)
    scene.sessions.closed(other)
    scene.outbox.count(scene.lost_clients.look)
    scene.outbox.end_turn()
    scene.sessions.opened(a_peer("session-1", Role.SESSION))
    scene.outbox.count(scene.lost_clients.look)
    scene.outbox.end_turn()
    assert (scene.endings.held, scene.slot.store.size) == (0, 20_000)
    assert scene.outbox.most < MOST_CALLS


class LargeLossAtSession:
    """A client of session-1 with 20,000 records of one service is lost; no leader is linked at first."""

    def __init__(self) -> None:
        self.outbox, routes = CountingOutbox(), Routes()
        routes.apply(SlotTable(1, (Slot(0, "data-1", 1, ()),)))
        self.writes = Writes(self.outbox, routes)
        self.stores = {0: SlotStore(PART_BYTES)}
        self.copies = FurtherCopies(self.outbox, lambda name: 0, self.stores, self.writes)
        for number in range(20_000):
            self.stores[0].put(record(number), 0.0)
        self.outbox.pace(self.lose)
        self.routes = routes

    def lose(self) -> Iterator[None]:
        for one in list(self.stores[0].records()):
            self.copies.keep(0, one)
            yield


def test_the_further_copies_of_a_large_client_are_reported_and_dropped_without_a_long_turn() -> None:
    scene = LargeLossAtSession()
    scene.outbox.end_turn()
    leader = a_peer("data-1", Role.DATA)
    reported = 0
    for _ in range(2):  # it is linked, takes all, and is linked again
        scene.routes.opened(leader)
        scene.outbox.count(partial(scene.copies.report_again, [0]))
        scene.outbox.count(scene.writes.routes_changed)
        scene.outbox.end_turn()
        while any(isinstance(request.message, Write) for request in scene.outbox.requests):
            request = next(each for each in scene.outbox.requests if isinstance(each.message, Write))
            scene.outbox.requests.remove(request)
            assert isinstance(request.message, Write)
            reported += sum(len(batch.lost) for batch in request.message.batches)
            scene.outbox.count(partial(request.answered, Answers([SlotAnswer(0, Access.ACCEPT, 1)]), None))
            scene.outbox.end_turn()
    assert reported == 2 * 20_000
    scene.outbox.count(partial(scene.copies.compact, scene.outbox.time + 1.0))
    scene.outbox.end_turn()
    assert scene.stores[0].size == 0
    assert scene.outbox.most < MOST_CALLS


# --- a session server with very many services ------------------------------------------------------------------------


class ManyServices:
    """data-1 serves slot 0, with 2,000 services of twenty records; session-1 declares interest in all of them at
    once."""

    def __init__(self) -> None:
        self.outbox, self.slots = CountingOutbox(), HeldSlots("data-1")
        self.slots.apply(SlotTable(1, (Slot(0, "data-1", 1, ()),)))
        slot = self.slots.held[0]
        slot.serve()
        session = a_peer("session-1", Role.SESSION)
        slot.compared.add(session.process_id)
        self.names = [f"s{number}" for number in range(2_000)]
        records = [
            Publisher(f"{name}-{n}", name, 1, 1, "session-1@1", "", (b"x",)) for name in self.names for n in range(20)
        ]
        slot.apply(SlotWrite(0, 1, records, [], []), 0.0)
        self.interests = SessionInterests(self.slots, Changes(self.outbox))
        wanted = SlotInterest(0, 1, [Known(name, 0, 0) for name in self.names], [])
        self.outbox.count(lambda: self.interests.declare(session, wanted))

    def announced(self, turns: int = 1_000) -> list[str]:
        """The services that are announced in so many turns."""
        for _ in range(turns):
            self.outbox.end_one_turn()
        messages = [effect.what for effect in self.outbox.take("sent") if isinstance(effect.what, Changed)]
        return [change.data_info_id for message in messages for change in message.changes]


def test_an_interest_in_very_many_services_takes_no_long_turn() -> None:
    scene = ManyServices()
    assert scene.announced() == scene.names
    assert scene.outbox.most < MOST_CALLS


def test_an_interest_of_another_session_server_does_not_wait_for_all_of_them() -> None:
    scene = ManyServices()
    other = a_peer("session-2", Role.SESSION)
    scene.slots.held[0].compared.add(other.process_id)
    scene.interests.declare(other, SlotInterest(0, 1, [Known("s7", 0, 0)], []))
    for _ in range(4):
        scene.outbox.end_one_turn()
    assert scene.outbox.messages(Changed, other)
    assert len(scene.outbox.messages(Changed)) < 8


def test_what_waits_to_be_announced_from_a_slot_is_dropped_when_the_slot_moves() -> None:
    scene = ManyServices()
    assert 0 < len(scene.announced(turns=2)) < len(scene.names) / 2
    scene.slots.apply(SlotTable(2, (Slot(0, "data-2", 2, ()),)))
    assert len(scene.announced()) < len(scene.names) / 2


def test_a_session_server_that_watches_very_many_services_declares_them_to_another_leader_without_a_long_turn() -> None:
    outbox, routes = CountingOutbox(), Routes()
    orders = OrdersInForce("session-1")
    rules = PushRules(outbox, SessionSettings(), "", orders, None, None, DuePushes(outbox, orders))
    interests, client = Interests(routes, rules), ConnectedClient(a_peer("client", Role.CLIENT))
    routes.opened(a_peer("data-1", Role.DATA))
    names = [f"s{number}" for number in range(20_000)]
    for number, name in enumerate(names):
        interests.subscribe(client, Want(name, Scope.DATA_CENTER), number % 64)
    interests.declare_slots(routes.apply(SlotTable(1, tuple([Slot(slot, "data-1", 1, ()) for slot in range(64)]))))
    outbox.end_turn()
    messages = [effect.what for effect in outbox.take("asked") if isinstance(effect.what, DeclareInterest)]
    declared = [known.data_info_id for message in messages for part in message.interests for known in part.wanted]
    assert sorted(declared) == sorted(names)
    assert outbox.most < MOST_CALLS / 4
