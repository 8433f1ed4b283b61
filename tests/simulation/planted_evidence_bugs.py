"""Bugs in what decides whether a registration may be removed, and in what travels in parts. See ``planted_bugs``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Set
from typing import Any

from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_client.moves import ClientMove
from slotreeve_client.replay import ClientReplay
from slotreeve_protocol.datum_copy import DatumCopy
from slotreeve_protocol.slot_messages import SlotWrite
from slotreeve_servers.data.endings.barrier import Barrier
from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.endings.ending import LostRecord
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.endings.lost_clients import LostClients
from slotreeve_servers.data.endings.presence import ClientPresence
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.data.endings.timing_wheel import TimingWheel
from slotreeve_servers.data.replication.streams import Streams
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.meta.arranging import copy_steps
from slotreeve_servers.meta.arranging.copy_steps import CopyStep, Rank, RowChange
from slotreeve_servers.node.attention import AttendedClock
from slotreeve_servers.node.records import SlotStore
from slotreeve_servers.session.clients.arrivals import Arrivals
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.push.push import PushGroup
from slotreeve_servers.session.records import leaders
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.records.writes import WriteBatch, Writes

from tests.simulation.planting import Patch, both, bug, replaced, returning

# --- session processes that are gone ---------------------------------------------------------------------------------


@bug("a session process that was gone stays gone when it is linked or a member again", "brake", 2)
def _gone_for_good() -> Patch:
    original, change = SessionServers.look, SessionServers.view_changed

    def look(self: SessionServers, is_linked: Any) -> tuple[list[str], list[str]]:
        gone, _ = original(self, lambda process: not self.is_gone(process) and is_linked(process))
        return gone, []

    def view_changed(self: SessionServers, nodes: Any) -> list[str]:
        missing = dict(self._missing)
        change(self, nodes)
        self._missing = missing | self._missing
        return []

    return both(replaced(SessionServers, "look", look), replaced(SessionServers, "view_changed", view_changed))


@bug("that a session process is gone is forgotten although its clients may still come back", "frozen")
def _gone_and_forgotten() -> Patch:
    original = LostClients.look

    def look(self: LostClients) -> None:
        original(self)
        self._sessions.forget(self.gone)

    return replaced(LostClients, "look", look)


@bug("a session server that is linked but no member is gone", "apart")
def _ignore_living_links() -> Patch:
    return replaced(LostClients, "is_linked", lambda _self, _process_id: False)


@bug("a link counts as living however long nothing has arrived over it", "frozen")
def _silent_links_live() -> Patch:
    return replaced(LostClients, "is_linked", lambda self, process_id: self._sessions.newest(process_id) is not None)


@bug("a session process that has left is waited for, for ever", "sessions")
def _wait_for_who_left() -> Patch:
    def view_changed(self: SessionServers, nodes: Any) -> list[str]:
        self.members = tuple(dict.fromkeys([*self.members, *(node.process_id for node in nodes)]))
        return []

    return replaced(SessionServers, "view_changed", view_changed)


# --- marks, what is known of clients, the brake ----------------------------------------------------------------------


@bug("a round of marks ends at the first answer", "moves", 3)
def _round_ends_at_first_answer() -> Patch:
    def ask_one(self: Any, process_id: str, peer: Any) -> None:
        if self._outbox.ask(peer, self._mark, lambda _reply, _error: self._pass(), 1e9):
            self._asked.add(process_id)

    return replaced(Barrier, "_ask_one", ask_one)


@bug("a round of marks ends before what has arrived is read", "moves")
def _round_ends_unread() -> Patch:
    return replaced(Barrier, "_end_when_read", Barrier._pass)


@bug("a lost registration ends although its client has sent it again", "moves")
def _remove_what_came_back() -> Patch:
    def record_that_ends(self: LostRecord) -> Publisher | None:
        return self.record

    return both(replaced(LostRecord, "record_that_ends", record_that_ends), returning(Endings, "stored"))


@bug("lost registrations end at once, without a grace", "unreachable", 40)
def _no_grace() -> Patch:
    return returning(Endings, "deadline", -math.inf)


@bug("that clients arrive is not believed", "moves")
def _nobody_arrives() -> Patch:
    return returning(ClientPresence, "arrive")


@bug("a client that arrives does so for ever", "moves")
def _arrives_for_ever() -> Patch:
    return both(returning(ClientPresence, "arrived"), returning(ClientPresence, "drop", []))


@bug("a client has arrived when any session server says so", "moves", 2)
def _arrived_by_anybody() -> Patch:
    def arrived(self: Any, _process_id: str, clients: Any) -> None:
        for client in clients:
            self._arriving.pop(client, None)

    return replaced(ClientPresence, "arrived", arrived)


@bug("of what waits for its deadline, every hundredth is forgotten by the wheel", "sessions")
def _wheel_forgets() -> Patch:
    original, count = TimingWheel.add, itertools.count(1)

    def add(self: Any, entry: Any, at: float) -> None:
        if next(count) % 100:
            original(self, entry, at)

    return replaced(TimingWheel, "add", add)


@bug("who arrives is not told to a data server that is linked later", "moves", 6)
def _new_links_are_not_told() -> Patch:
    return returning(Arrivals, "link_opened")


@bug("the brake never holds", "brake")
def _no_brake() -> Patch:
    return returning(Brake, "allows", True)


@bug("the attended clock runs while the process is frozen", "frozen")
def _clock_runs_while_frozen() -> Patch:
    return replaced(AttendedClock, "now", lambda self: self._real())


# --- leaders and followers -------------------------------------------------------------------------------------------


@bug("removals are not streamed to followers", "takeover", 1)
def _removals_not_streamed() -> Patch:
    original = Streams.send

    def send(self: Streams, slot: HeldSlot, write: SlotWrite) -> None:
        original(self, slot, SlotWrite(write.slot, write.leader_epoch, write.records, [], []))

    return replaced(Streams, "send", send)


@bug("a follower does not remove what its leader purged", "moves")
def _followers_keep_what_was_purged() -> Patch:
    original = HeldSlot.apply

    def apply(self: HeldSlot, write: SlotWrite, now: float) -> Any:
        if not self.leads:
            write = SlotWrite(write.slot, write.leader_epoch, write.records, write.gone, [])
        return original(self, write, now)

    return replaced(HeldSlot, "apply", apply)


@bug("a stream to a follower begins without the tombstones", "takeover")
def _streams_without_tombstones() -> Patch:
    return returning(Streams, "_send_all_tombstones")


@bug("what a slot was compared with under a former leader epoch still counts", "churn", 18)
def _compared_under_former_epoch() -> Patch:
    original = HeldSlots.apply
    former: dict[tuple[HeldSlots, int], set[str]] = {}

    def apply(self: HeldSlots, table: SlotTable, unclean: Collection[int] = ()) -> Any:
        for number, slot in self.held.items():
            former.setdefault((self, number), set()).update(slot.compared)
        led, followed = original(self, table, unclean)
        for slot in led:
            slot.compared |= former.get((self, slot.slot.id), set())
        return led, followed

    return replaced(HeldSlots, "apply", apply)


@bug("digests are not brought up to date", "data")
def _stale_digests() -> Patch:
    return replaced(SlotStore, "_fold_all", lambda _self: None)


# --- session servers -------------------------------------------------------------------------------------------------


@bug("an interest that a leader refused, or did not answer, is lost", "takeover")
def _lose_refused_interests() -> Patch:
    return returning(Interests, "_again")


@bug("a client's request for the whole service is ignored", "handover")
def _ignore_receipt_resets() -> Patch:
    original = PushGroup.acknowledged

    def acknowledged(self: PushGroup, client: Any, receipt: Any, kept_seconds: float | None = None) -> None:
        if receipt.version:
            original(self, client, receipt, kept_seconds)

    return replaced(PushGroup, "acknowledged", acknowledged)


@bug("replays are acknowledged before they are stored", "retries")
def _acknowledge_replays_at_once() -> Patch:
    original = Writes.submit

    def submit(self: Writes, slot: int, record: Publisher, weight: int, client: Any, sequence: int) -> None:
        original(self, slot, record, weight, client, sequence)
        self.waiting, self.waiting_weight = self.waiting + 1, self.waiting_weight + weight
        self._acknowledge(WriteBatch(records=[record], clients=[client], sequences=[sequence]))

    return replaced(Writes, "submit", submit)


@bug("a session server delivers without its replays", "moves")
def _deliver_without_replays() -> Patch:
    original = Writes.when_stored

    def when_stored(self: Any, slots: Any, action: Any) -> None:
        replays, self._replays = self._replays, {}
        original(self, slots, action)
        self._replays = replays

    return replaced(Writes, "when_stored", when_stored)


@bug("a session server uses its third slot table for ever", "data")
def _stale_routes() -> Patch:
    original = Routes.apply

    def apply(self: Routes, table: SlotTable) -> list[int]:
        return original(self, table) if table.epoch <= 2 else []

    return replaced(Routes, "apply", apply)


# --- clients ---------------------------------------------------------------------------------------------------------


@bug("a client ends its replay before it is stored", "moves")
def _replay_ends_unstored() -> Patch:
    def end(self: Any) -> bool:
        is_first, self._ended = not self._ended, True
        return is_first

    return both(replaced(ClientReplay, "end", end), replaced(ClientReplay, "is_stored", property(lambda _self: True)))


@bug("a client that moves closes the former connection at once", "handover")
def _close_former_at_once() -> Patch:
    def take(self: Any, connection: Any) -> Any:
        former, self.present = self.present, connection
        return former

    return replaced(ClientMove, "take", take)


@bug("a client has arrived when its connection ends", "moves")
def _arrived_when_it_left() -> Patch:
    original = Arrivals.lost
    return replaced(Arrivals, "lost", lambda self, client, _seconds: original(self, client, 0.0))


@bug("a leader without a copy does not learn what has ended", "alone", 21)
def _ended_unknown() -> Patch:
    return replaced(leaders, "newest_tombstones", lambda _store: iter(()))


@bug("a slot whose leader died goes to the server with the fewest slots, which has no copy", "hosts")
def _outsider_leads() -> Patch:
    original = copy_steps._succeed

    def succeed(change: RowChange, target: Slot, live: Set[str], rank: Rank, why: str) -> None:
        outsiders = sorted(set(live).difference(change.row.holders))
        if outsiders:
            change.lead(CopyStep.BEGIN, outsiders[0], "made up")
        else:
            original(change, target, live, rank, why)

    return replaced(copy_steps, "_succeed", succeed)


# --- parts -----------------------------------------------------------------------------------------------------------


@bug("the parts of a service are not gathered", "parts")
def _drop_parts() -> Patch:
    return returning(DatumCopy, "gather")


@bug("what comes after the first part of a slot's differences is not asked for", "parts")
def _one_part_is_all() -> Patch:
    original = SlotStore.difference

    def difference(self: SlotStore, asked: Any, limit: int) -> Any:
        found = original(self, asked, limit)
        found.complete = True
        return found

    return replaced(SlotStore, "difference", difference)
