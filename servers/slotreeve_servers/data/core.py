"""The core of a data server: it holds slots, stores what session servers write, streams it to followers, and announces
it to interested session servers.

It knows peers, time and messages, and acts through its outbox; :mod:`slotreeve_servers.data.server` is its shell.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import islice

from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Message
from slotreeve_events.changed_services import HeldRecords
from slotreeve_events.history import NO_REASONS, ServerHistory
from slotreeve_events.log import EventLog
from slotreeve_protocol.client_messages import ListServices
from slotreeve_protocol.delay_messages import GetDelays, GetSlotReads
from slotreeve_protocol.lease_messages import KeepLeases
from slotreeve_protocol.meta_messages import GetNewerView, LeaseGranted, View
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Confirm,
    DeclareInterest,
    Fetch,
    Follow,
    Presence,
    SlotWrite,
    Write,
)

from slotreeve_servers.data.announcing.changes import Changes
from slotreeve_servers.data.announcing.delays import DataDelays
from slotreeve_servers.data.announcing.interest import SessionInterests
from slotreeve_servers.data.announcing.listing import Listing
from slotreeve_servers.data.announcing.pages import Pages
from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.endings.lease_keeper import LeaseKeeper
from slotreeve_servers.data.endings.lost_clients import LostClients
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.data.replication.comparison import DigestExchange, SessionComparison
from slotreeve_servers.data.replication.confirmations import FollowerConfirmations
from slotreeve_servers.data.replication.following import FollowedLeaders
from slotreeve_servers.data.replication.in_sync import InSync
from slotreeve_servers.data.replication.streams import Streams
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots.loads import LedLoads
from slotreeve_servers.data.slots.slot_waits import MOST_LOOKED_AT, TOLD_AFTER_SECONDS, SlotWaits
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.data.slots.unreadable import UnreadableSlots
from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.membership import Holdings, Membership
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Outbox, Peer

log = logging.getLogger("slotreeve.data")

SLOTS_PER_TURN = 8
REPAIRED_SLOTS = 256
"""Slots that are compared again in ``data.repair_seconds``. With more slots, the next ones follow after that time: what
an idle server costs does not grow with them."""
TURN_PAUSE_SECONDS = 0.01
UPKEEP_SECONDS = 0.25
LINKS_AGAIN_SECONDS = 1.5
"""A session server that knows a data server tries to connect to it at least every second."""
CURRENT_HEARTBEATS = 1.5
"""The view is current for the time of so many heartbeats after the meta leader has confirmed it."""


class DataCore:
    """One data server's state.

    Args:
        heartbeat_seconds: interval of the heartbeats to the meta leader.
        events: the event log, where one is written. ``history``: what this server keeps of the past, if it does.

    Attributes:
        in_sync: the other holders of the slots that it leads. ``confirmations``: its questions whether they have
            everything.
        endings: the registrations that may end. ``lost_clients``: finds those of lost clients.
        leases: the leases in the slots that it leads.
        unreadable: for how long slots could not be read.
    """

    def __init__(
        self,
        outbox: Outbox,
        node: Node,
        rules: DataSettings,
        heartbeat_seconds: float,
        events: EventLog | None = None,
        history: ServerHistory | None = None,
    ) -> None:
        self._outbox, self._node, self._rules = outbox, node, rules
        self._history = history
        self._counters: Counter[str] = Counter()
        self._is_member = False
        self.membership = Membership(outbox, node, heartbeat_seconds, self)
        self.slots = HeldSlots(node.name, outbox.part_bytes)
        if history is not None:
            history.complete_of = self.slots.complete_of
        self._loads = self.membership.loads = LedLoads(outbox, self.slots)
        self.changes = Changes(outbox)
        self._newer_view = NewerView(outbox, self.membership)
        self._streams = Streams(outbox, self.slots, self._newer_view)
        self._interests = SessionInterests(self.slots, self.changes)
        self._sessions = SessionServers(CURRENT_HEARTBEATS * heartbeat_seconds)
        self._brake = Brake(rules)
        self.endings = Endings(outbox, self.slots, self, self._sessions, rules, self._brake, events)
        self.lost_clients = LostClients(outbox, self.slots, self, self._sessions, self.endings)
        self.in_sync = InSync(outbox, self.slots, self._streams, self.membership)
        self._streams.begun = self.in_sync.stream_begun
        self._streams.anew = self.in_sync.begins_anew
        self.confirmations = FollowerConfirmations(outbox, self._streams, self.in_sync)
        self.leases = LeaseKeeper(outbox, self.slots, self.membership, self.confirmations, self.endings, self, events)
        self.endings.leases = self.leases
        self._pages = Pages(outbox)
        self._comparisons: dict[Peer, DigestExchange] = {}
        self.leaders = FollowedLeaders(
            outbox, self.slots, self._tell_if_settled, self._counters, self._newer_view, history
        )
        self._waits = SlotWaits(history)
        self.unreadable = UnreadableSlots(outbox, node.name, history)
        self.delays = DataDelays(outbox, self.slots, self.changes)
        self._repaired = 0
        # Of the slots that this server leads, those that may serve without the records of a member.
        self._uncompared: set[int] = set()
        self._to_repair: deque[int] = deque()
        self.handlers = Handlers(
            {Presence: self.lost_clients.told},
            {
                Write: self._on_write,
                DeclareInterest: self._on_interest,
                Fetch: self._on_fetch,
                ListServices: Listing(outbox, self.slots).answer,
                Follow: self._streams.answer,
                Confirm: self._on_confirm,
                GetNewerView: self._newer_view.answer,
                GetDelays: self.delays.answer,
                GetSlotReads: self.unreadable.answer,
            },
            {KeepLeases: self.leases.keep},
        )

    def start(self) -> None:
        """Begin the upkeep."""
        self._outbox.repeat("repair", self._rules.repair_seconds, self._repair)
        self._outbox.repeat("overdue", UPKEEP_SECONDS, self._overdue)

    def rules_changed(self, rules: DataSettings) -> None:
        """The operator has changed the rules."""
        self._rules = self._brake.rules = rules
        self.endings.rules_changed(rules)

    # --- the table names the slots that this server holds -----------------------------------------------------------

    def view_changed(self, old: View, view: View) -> None:
        """Hold the slots of the newer table: compare those newly led, follow those newly followed."""
        before = self._sessions.members
        self.lost_clients.view_changed(view.sessions)
        complete = self.slots.complete_of(self.slots.held.keys()) if self._history is not None else set()
        # A view says it of its own table. One that was missed may have said it of the same table, or of one before.
        unclean = view.unclean if view.revision == old.revision + 1 else range(len(view.table.slots))
        led, followed = self.slots.apply(self._table_of(view), unclean)
        self._streams.view_changed(view)
        if self._history is not None:
            self._history.lapse(complete - self.slots.complete_of(complete))
        for slot in led:
            slot.led_since = self._outbox.attended()
            self.unreadable.begins(slot.slot.id, *self._unreadable_since(slot.slot.id, old, view))
        self.unreadable.keep({slot.slot.id: slot for slot in self.slots.led()})
        self._loads.led(led)
        self.endings.table_changed()
        self.leases.table_changed(led)
        self.in_sync.table_changed()
        self.confirmations.table_changed()
        if self._sessions.members != before:
            self._uncompared = {slot.slot.id for slot in self.slots.led()}
            known = {*self._sessions.members, *(peer.process_id for peer in self._sessions.connections)}
            for slot in self.slots.led():
                slot.compared &= known
        self._serve_what_is_complete()
        for comparison in self._comparisons.values():
            comparison.add(slot.slot.id for slot in led)
        leaders = self.slots.leaders()
        self._outbox.keep_links([node for node in view.data if node.name in leaders])
        self.leaders.follow(followed)
        if led or followed:
            extra = {"epoch": view.table.epoch, "led": len(led), "followed": len(followed)}
            log.info(
                "table %d: %d slots newly led, %d newly followed",
                view.table.epoch,
                len(led),
                len(followed),
                extra=extra,
            )

    def _unreadable_since(self, number: int, old: View, view: View) -> tuple[float, str]:
        """Since when a slot that this server leads now cannot be read, on its clock, and why."""
        now = self._outbox.now()
        before = old.table.slots[number].leader if number < len(old.table.slots) else None
        if before is None or before == self._node.name:
            return now, "no leader before is known here" if before is None else f"{before} leads it anew"
        process_id = next((node.process_id for node in old.data if node.name == before), "")
        if process_id in {node.process_id for node in view.data}:
            return now, f"it moved from {before}"
        last = self.leaders.last_sign(process_id)
        if last is None:
            return now, f"{before}, which led it, is gone, and this server did not follow it: from the new table on"
        return last, f"{before}, which led it, is gone"

    def _table_of(self, view: View) -> SlotTable:
        """The table of the view. Before this process is a member, and where another one of its name is, without the
        slots that that one leads: under one leader epoch only one process may count versions (I6, I11)."""
        for node in view.data:
            if node.name == self._node.name:
                self._is_member = node.process_id == self._node.process_id
        if self._is_member:
            return view.table
        return SlotTable(view.table.epoch, tuple([row for row in view.table.slots if row.leader != self._node.name]))

    def holdings(self) -> Holdings:
        """The slots that this server does not hold completely yet, and who is in sync; each heartbeat names them.

        A slot that serves without the records of a silent session server is one of them, so that the balancer does not
        move it meanwhile. Its next leader would wait for the same session server before it serves."""
        candidates = [slot for number in self._uncompared if (slot := self.slots.get(number)) is not None]
        members = self._sessions.members
        self._uncompared = {
            slot.slot.id for slot in candidates if slot.serving and not slot.compared.issuperset(members)
        }
        return Holdings(sorted({*self.slots.unsettled(), *self._uncompared}), self.in_sync.reports())

    def _tell_if_settled(self) -> None:
        """A slot is held completely now: tell the meta leader as soon as every slot is."""
        if self.slots.are_settled:
            self.membership.heartbeat_soon()

    def lease_granted(self, leader: Peer, granted: LeaseGranted) -> None:
        """The view is the leader's as of the heartbeat that this answers."""
        self._sessions.confirmed_at = self.membership.granted_at
        self.leases.confirmed()
        if granted.frozen is not None and granted.frozen is not self._brake.is_frozen:
            log.warning("ends of registrations are %s", "frozen by an order" if granted.frozen else "frozen no more")
            self._brake.freeze(granted.frozen, self._outbox.attended())
            self.endings.rules_changed(self._rules)

    # --- a led slot is compared with every session server before it serves -----------------------------------------

    def opened(self, peer: Peer) -> None:
        """A session server is compared with from now on; followers and tools speak first."""
        if peer.role is Role.DATA and (older := self._streams.opened(peer)) is not None:
            self.in_sync.closed(older)
            self._outbox.close(older, "the same process has connected again")
        if peer.role is Role.SESSION:
            older = self._sessions.newest(peer.process_id)
            self._sessions.opened(peer)
            if older is not None:
                self._outbox.close(older, "the same process has connected again")
            self.lost_clients.look()  # nothing ends any more because this process was gone: it is compared with
            side = SessionComparison(peer.process_id, self.slots, self.endings, self, self._counters)
            comparison = DigestExchange(self._outbox, peer, side)
            self._comparisons[peer] = comparison
            comparison.add(slot.slot.id for slot in self.slots.led())

    def closed(self, peer: Peer, reason: str) -> None:
        """Nothing is owed any more to a session server or follower whose connection has ended."""
        comparison = self._comparisons.pop(peer, None)
        if comparison is not None:
            comparison.stop()
        self._sessions.closed(peer)
        self.lost_clients.look()
        self.changes.forget(peer)
        self._interests.closed(peer)
        self._streams.closed(peer)
        self.in_sync.closed(peer)
        self._serve_what_is_complete()

    def compared(self, slot: HeldSlot, process_id: str) -> None:
        """``slot`` holds all that the session process has for it."""
        is_first = process_id not in slot.compared
        slot.compared.add(process_id)
        if not slot.serving:
            self._serve_if_complete(slot)
        elif is_first:
            self._interests.announce(slot, {process_id})

    def _serve_what_is_complete(self) -> None:
        for number in self.slots.unsettled():
            slot = self.slots.held[number]
            if slot.leads:
                self._serve_if_complete(slot)

    def _serve_if_complete(self, slot: HeldSlot) -> None:
        if slot.serving:
            return
        sessions = self._to_compare(slot)
        missing = sessions - slot.compared
        if missing and not self._is_emergency(slot, sessions, missing):
            return
        slot.serve()
        self.unreadable.ends(slot.slot.id)
        if missing:
            self._uncompared.add(slot.slot.id)
        self.lost_clients.adopt(slot)
        self.endings.slot_serves(slot)
        self._interests.announce(slot, slot.compared)
        slot.born = math.inf
        self._tell_if_settled()

    def _to_compare(self, slot: HeldSlot) -> set[str]:
        """The session processes whose records a slot must hold before it serves: the members; and for the time of the
        grace those that are linked and no members, because the meta leader may have dropped them by mistake. Where no
        copy is left here, those that the meta leader misses are given the time to link: nobody else may have what they
        have."""
        processes = set(self._sessions.members)
        led_for = self._outbox.attended() - slot.led_since
        if not slot.was_in_sync and led_for < LINKS_AGAIN_SECONDS:
            processes.update(self.membership.view.missing)
        if led_for < self._rules.session_grace_seconds:
            processes.update(filter(self.lost_clients.is_linked, self._sessions.connected_strangers()))
        return processes

    def _is_emergency(self, slot: HeldSlot, sessions: set[str], missing: set[str]) -> bool:
        """Whether a slot has waited too long for one silent session server of several, and serves without its answer
        (original: ``SlotManagerImpl``'s emergency)."""
        after = self._rules.emergency_seconds
        if not after or len(missing) > 1 or len(sessions) == 1 or self._outbox.attended() - slot.led_since < after:
            return False
        self._counters["slots_served_incomplete"] += 1
        log.error(
            "ALARM: slot %d serves without the records of %s, which has not answered for %g s (data.emergency_seconds)",
            slot.slot.id,
            *missing,
            after,
            extra={"slot": slot.slot.id},
        )
        return True

    # --- session servers write, and declare their interest -----------------------------------------------------------

    def _on_write(self, peer: Peer, message: Write) -> Message:
        """Store each batch whose slot this server leads under the epoch that the batch names."""
        answers = []
        for batch in message.batches:
            slot, answer = self.slots.get(batch.slot), self.slots.answer(batch.slot, batch.leader_epoch)
            if slot is not None and (answer.access is Access.ACCEPT or answer.access is Access.MIGRATING):
                if batch.gone:
                    self.endings.said(slot, batch.gone)
                if batch.lost:
                    self.lost_clients.reported(slot, batch.lost)
                if batch.records:
                    records = SlotWrite(batch.slot, batch.leader_epoch, batch.records, [], [], [], batch.waited_us)
                    self.store(slot, records)
            answers.append(answer)
        return Answers(answers)

    def store(self, slot: HeldSlot, write: SlotWrite, reasons: Mapping[str, str] = NO_REASONS) -> None:
        """Store in a led slot; the followers and the interested session servers get it when this turn ends. This is the
        one way by which records of led slots change. ``reasons``: why registrations end, by register id, for the
        history."""
        self._loads.written(slot)
        if self._history is not None:
            epoch, number = slot.slot.leader_epoch, slot.slot.id
            held = HeldRecords(slot.store.services, epoch, is_complete=slot.serving, slot=number)
            self._history.writing(held, write, reasons)
        self.waited(slot, write.waited_us)
        touched = slot.apply(write, self._outbox.now())
        if write.records:
            self.endings.stored(slot, write.records)
        if slot.streams or slot.copying:
            self._streams.send(slot, write)
        if touched:
            self.changes.changed(slot, touched, write.waited_us)

    def waited(self, slot: HeldSlot, waited_us: int) -> None:
        """Something for a slot has waited for so long elsewhere: its changes are as old, if it does not serve yet."""
        if not slot.serving:
            slot.born = min(slot.born, self._outbox.now() - waited_us / 1_000_000)

    def _on_confirm(self, peer: Peer, message: Confirm) -> Message:
        """A session server asks whether this server leads what its table says."""
        self._newer_view.heard(peer, message.revision)
        answers = [self.slots.answer(asked.slot, asked.leader_epoch) for asked in message.slots]
        return Answers(answers, self._newer_view.revision)

    def _on_interest(self, peer: Peer, message: DeclareInterest) -> Message:
        return Answers([self._interests.declare(peer, interest) for interest in message.interests])

    # --- reads -------------------------------------------------------------------------------------------------------

    def _on_fetch(self, peer: Peer, message: Fetch) -> Message:
        slot, answer = self.slots.get(message.slot), self.slots.answer(message.slot, message.leader_epoch)
        if slot is None or answer.access is not Access.ACCEPT:
            return Answers([answer])
        return self._pages.answer(slot, message)

    # --- upkeep ------------------------------------------------------------------------------------------------------

    def _repair(self) -> float | None:
        """Compare a few slots with every session server, or with the leader; return the pause before the next few."""
        if not self._to_repair:
            self._to_repair.extend(sorted(self.slots.held))
            self._repaired = 0
        part = [self._to_repair.popleft() for _ in range(min(SLOTS_PER_TURN, len(self._to_repair)))]
        self._repaired += len(part)
        before = self._outbox.now() - self._rules.tombstone_seconds
        held = [slot for number in part if (slot := self.slots.get(number)) is not None]
        for slot in held:
            slot.store.compact(before)
        for comparison in self._comparisons.values():
            comparison.repair(slot.slot.id for slot in held if not slot.leaving)
        self.leaders.compare(part)
        return TURN_PAUSE_SECONDS if self._to_repair and self._repaired % REPAIRED_SLOTS else None

    def _overdue(self) -> float | None:
        """Serve slots that waited too long, and remove the lost registrations for which there is evidence enough."""
        self._serve_what_is_complete()
        self.lost_clients.look()
        self.in_sync.look()
        self.endings.look()
        self.delays.look()
        self.unreadable.look()
        self._waits.look(islice(self._long_waits(), MOST_LOOKED_AT))
        return None

    def _long_waits(self) -> Iterator[tuple[HeldSlot, set[str]]]:
        """The slots that do not serve after a while, with what they wait for."""
        since = self._outbox.attended() - TOLD_AFTER_SECONDS
        for number in self.slots.unsettled():
            slot = self.slots.held[number]
            if slot.leads and slot.led_since < since:
                yield slot, self._to_compare(slot) - slot.compared

    # --- for people --------------------------------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """What this server did since its start, and what it holds. The repairs are 0 in a quiet cluster."""
        led = list(self.slots.led())
        counted = ("session_repairs", "follower_repairs", "takeover_differences", "slots_served_incomplete")
        return {
            "slots_led": len(led),
            "slots_followed": len(self.slots.held) - len(led),
            "slots_unsettled": len(self.slots.unsettled()),
            "slots_unreadable": self.unreadable.open,
            "slots_unreadable_ms": round(1000 * self.unreadable.times.total_seconds),
            "registrations": self.slots.registrations(),
            **{name: self._counters[name] for name in (*counted, "services_copied")},
            "changes_sent": self.changes.sent,
            "records_replicated": self._streams.records,
            **self.endings.counters(),
        }
