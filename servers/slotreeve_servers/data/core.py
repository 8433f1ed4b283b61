"""The core of a data server: it holds slots, stores what session servers write, streams it to followers, and announces
it to interested session servers.

It knows peers, time and messages, and acts through its outbox; :mod:`slotreeve_servers.data.server` is its shell.
"""

from __future__ import annotations

import logging
from collections import Counter, deque

from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Message
from slotreeve_events.log import EventLog
from slotreeve_protocol.client_messages import ListServices, Services
from slotreeve_protocol.meta_messages import LeaseGranted, View
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Claims,
    DeclareInterest,
    Fetch,
    Follow,
    SlotAnswer,
    SlotWrite,
    Write,
)

from slotreeve_servers.data.changes import Changes
from slotreeve_servers.data.comparison import SessionComparison
from slotreeve_servers.data.departures import Departures
from slotreeve_servers.data.exchange import DigestExchange
from slotreeve_servers.data.following import FollowedLeaders
from slotreeve_servers.data.gone_sessions import GoneSessions
from slotreeve_servers.data.held_back import LostRecord
from slotreeve_servers.data.interest import SessionInterests
from slotreeve_servers.data.pages import Pages
from slotreeve_servers.data.sessions import SessionServers
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.data.streams import Streams
from slotreeve_servers.node.dispatch import Desk
from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.outbox import Outbox, Peer

log = logging.getLogger("slotreeve.data")

SLOTS_PER_TURN = 8
TURN_PAUSE_SECONDS = 0.01
UPKEEP_SECONDS = 0.25
LINK_SILENCE_SECONDS = 3.0
"""A connected session process from which nothing arrived for so long counts as not linked."""


class DataCore:
    """One data server's state.

    Args:
        heartbeat_seconds: interval of the heartbeats to the meta leader.
        events: the event log, where one is written.
    """

    def __init__(
        self,
        outbox: Outbox,
        node: Node,
        rules: DataSettings,
        heartbeat_seconds: float,
        events: EventLog | None = None,
    ) -> None:
        self._outbox, self._node, self._rules = outbox, node, rules
        self._counters: Counter[str] = Counter()
        self._is_member = False
        self.membership = Membership(outbox, node, heartbeat_seconds, self)
        self.slots = HeldSlots(node.name, outbox.part_bytes)
        self.changes = Changes(outbox)
        self._streams = Streams(outbox, self.slots)
        self._interests = SessionInterests(self.slots, self.changes)
        self._sessions = SessionServers()
        self._gone = GoneSessions()
        self._departures = Departures(outbox, self.slots, self, self._sessions, self._gone, rules, events)
        self._pages = Pages(outbox)
        self._comparisons: dict[Peer, DigestExchange] = {}
        self.leaders = FollowedLeaders(outbox, self.slots, self, self._counters)
        self._to_repair: deque[int] = deque()
        self._to_search: deque[tuple[str, int]] = deque()
        self.desk = Desk(
            {Claims: self._on_claims},
            {
                Write: self._on_write,
                DeclareInterest: self._on_interest,
                Fetch: self._on_fetch,
                ListServices: self._on_list,
                Follow: self._streams.answer,
            },
        )

    def start(self) -> None:
        """Begin the upkeep."""
        self._outbox.repeat("repair", self._rules.repair_seconds, self._repair)
        self._outbox.repeat("overdue", UPKEEP_SECONDS, self._overdue)

    # --- the table names the slots that this server holds -----------------------------------------------------------

    def view_changed(self, old: View, view: View) -> None:
        """Hold the slots of the newer table: compare those newly led, follow those newly followed."""
        alive = {node.process_id for node in view.sessions}
        self._sessions.view_changed(view.sessions)
        for process_id in self._gone.view_changed({node.process_id for node in old.sessions}, alive):
            self._departures.process_is_back(process_id)
        self._find_gone()
        led, followed = self.slots.apply(self._table_of(view))
        for slot in led:
            slot.led_since = self._outbox.attended()
        for slot in self.slots.led():
            self._serve_if_complete(slot)
        for comparison in self._comparisons.values():
            comparison.add(slot.slot.id for slot in led)
        addresses = {node.name: node.address for node in view.data}
        self._outbox.keep_links({name: addresses[name] for name in sorted(self.slots.leaders()) if name in addresses})
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

    def _table_of(self, view: View) -> SlotTable:
        """The table of the view. Before this process is a member, without the slots that a former process of the same
        name leads there: under one leader epoch only one process may count versions (I6, I11)."""
        if not self._is_member:
            self._is_member = any(node.process_id == self._node.process_id for node in view.data)
        if self._is_member:
            return view.table
        return SlotTable(view.table.epoch, tuple([row for row in view.table.slots if row.leader != self._node.name]))

    def unsettled(self) -> list[int]:
        """The slots that this server does not hold completely yet; each heartbeat names them."""
        return self.slots.unsettled()

    def lease_granted(self, leader: Peer, granted: LeaseGranted) -> None:
        """A data server needs no more of the leader's answer than its membership takes."""

    # --- a led slot is compared with every session server before it serves -----------------------------------------

    def opened(self, peer: Peer) -> None:
        """A session server is compared with from now on; followers and tools speak first."""
        if peer.role is Role.SESSION:
            self._sessions.opened(peer)
            side = SessionComparison(peer.process_id, self.slots, self._departures, self, self._counters)
            comparison = DigestExchange(self._outbox, peer, side, self._rules.compare_timeout_seconds)
            self._comparisons[peer] = comparison
            comparison.add(slot.slot.id for slot in self.slots.led())

    def closed(self, peer: Peer, reason: str) -> None:
        """Nothing is owed any more to a session server or follower whose connection has ended."""
        comparison = self._comparisons.pop(peer, None)
        if comparison is not None:
            comparison.stop()
        self._sessions.closed(peer)
        self._find_gone()
        self.changes.forget(peer)
        self._interests.closed(peer)
        self._streams.closed(peer)
        for slot in self.slots.led():
            self._serve_if_complete(slot)

    def compared(self, slot: HeldSlot, process_id: str) -> None:
        """``slot`` holds all that the session process has for it."""
        slot.compared.add(process_id)
        if slot.serving:
            self._interests.announce(slot, {process_id})
        else:
            self._serve_if_complete(slot)

    def _serve_if_complete(self, slot: HeldSlot) -> None:
        if slot.serving:
            return
        sessions = self._to_compare(slot)
        missing = sessions - slot.compared
        if missing and not self._is_emergency(slot, sessions, missing):
            return
        slot.serve()
        self._adopt(slot)
        self._interests.announce(slot, slot.compared)
        if not self.slots.unsettled():
            self.membership.heartbeat_soon()

    def _to_compare(self, slot: HeldSlot) -> set[str]:
        """The session processes whose records a slot must hold before it serves: the members; and for the time of the
        grace those that are linked and no members, because the meta leader may have dropped them by mistake."""
        processes = set(self._sessions.members)
        if self._outbox.attended() < slot.led_since + self._rules.session_grace_seconds:
            processes.update(
                process_id for process_id in self._sessions.connected_strangers() if self._is_linked(process_id)
            )
        return processes

    def _is_linked(self, process_id: str) -> bool:
        """Whether messages of a session process still arrive."""
        peer = self._sessions.newest(process_id)
        return peer is not None and self._outbox.silent_for(peer) < LINK_SILENCE_SECONDS

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
        held = self.slots.held
        for batch in message.batches:
            slot = held.get(batch.slot)
            if slot is None:
                answers.append(SlotAnswer(batch.slot, Access.MOVED, 0))
                continue
            access = slot.access(batch.leader_epoch)
            if access is Access.ACCEPT or access is Access.MIGRATING:
                if batch.gone:
                    self._departures.said(slot, batch.gone)
                if batch.lost:
                    self._lost(slot, batch.lost)
                if batch.records:
                    self.store(slot, SlotWrite(batch.slot, batch.leader_epoch, batch.records, [], []))
            answers.append(SlotAnswer(batch.slot, access, slot.slot.leader_epoch))
        return Answers(answers)

    def _lost(self, slot: HeldSlot, tombstones: list[Publisher]) -> None:
        """The session server has lost the clients of these registrations."""
        entries = []
        for tombstone in tombstones:
            held = slot.store.find(tombstone)
            if held is not None and held.session == tombstone.session and not held.newer_than(tombstone):
                entries.append(LostRecord(slot, held, leaves_tombstone=True))
        self._departures.lost(entries)

    def _on_claims(self, peer: Peer, message: Claims) -> None:
        self._departures.claims.begin(peer.process_id, message.begun)
        self._departures.claims.end(peer.process_id, message.ended)

    def store(self, slot: HeldSlot, write: SlotWrite) -> None:
        """Store in a led slot; the followers and the interested session servers get it when this turn ends. This is the
        one way by which records of led slots change."""
        touched = slot.apply(write, self._outbox.now())
        if slot.streams:
            self._streams.send(slot, write)
        if touched:
            self.changes.changed(slot, touched)

    def _on_interest(self, peer: Peer, message: DeclareInterest) -> Message:
        return Answers([self._interests.declare(peer, interest) for interest in message.interests])

    # --- reads -------------------------------------------------------------------------------------------------------

    def _on_fetch(self, peer: Peer, message: Fetch) -> Message:
        slot = self.slots.get(message.slot)
        if slot is None:
            return Answers([SlotAnswer(message.slot, Access.MOVED, 0)])
        access = slot.access(message.leader_epoch)
        if access is not Access.ACCEPT:
            return Answers([SlotAnswer(message.slot, access, slot.slot.leader_epoch)])
        return self._pages.answer(slot, message)

    def _on_list(self, peer: Peer, message: ListServices) -> Message:
        counts = {
            data_info_id: len(service)
            for slot in self.slots.led()
            for data_info_id, service in slot.store.services.items()
            if data_info_id.startswith(message.prefix)
        }
        return Services(counts)

    # --- followed slots ----------------------------------------------------------------------------------------------

    def follower_progressed(self) -> None:
        """Tell the meta leader as soon as every slot is held completely."""
        if not self.slots.unsettled():
            self.membership.heartbeat_soon()

    # --- upkeep ------------------------------------------------------------------------------------------------------

    def _repair(self) -> float | None:
        """Compare a few slots with every session server, or with the leader; return the pause before the next few."""
        if not self._to_repair:
            self._to_repair.extend(sorted(self.slots.held))
        part = [self._to_repair.popleft() for _ in range(min(SLOTS_PER_TURN, len(self._to_repair)))]
        before = self._outbox.now() - self._rules.tombstone_seconds
        held = [slot for number in part if (slot := self.slots.get(number)) is not None]
        for slot in held:
            slot.store.compact(before)
        for comparison in self._comparisons.values():
            comparison.add(slot.slot.id for slot in held if not slot.departing)
        self.leaders.compare(part)
        return TURN_PAUSE_SECONDS if self._to_repair else None

    def _overdue(self) -> float | None:
        """Serve slots that waited too long. Find the records of session processes that are gone, a slot at a time, and
        remove the lost registrations for which there is evidence enough."""
        if self._to_search:
            self._search(*self._to_search.popleft())
            return 0.0 if self._to_search else None
        for slot in list(self.slots.led()):
            self._serve_if_complete(slot)
        self._find_gone()
        self._departures.look()
        return 0.0 if self._to_search else None

    def _find_gone(self) -> None:
        """Look which session processes are gone, and which of those are back."""
        now = self._outbox.attended()
        gone, back = self._gone.look(self._is_linked, now)
        for process_id in back:
            self._departures.process_is_back(process_id)
        for process_id in gone:
            grace = self._rules.session_grace_seconds
            log.warning("session process %s is gone; its clients have %g s to return", process_id, grace)
            self._departures.claims.drop(process_id)
            self._to_search.extend((process_id, slot.slot.id) for slot in self.slots.led())
        self._gone.forget(now - self._rules.session_grace_seconds - self._rules.departure_hold_seconds)

    def _adopt(self, slot: HeldSlot) -> None:
        """This server serves the slot from now on: find the records of session processes that are no members."""
        members = set(self._sessions.members)
        for process_id in sorted({record.session for record in slot.store.records()} - members):
            self._gone.suspect((process_id,))
            if self._gone.since(process_id) is not None:
                self._to_search.append((process_id, slot.slot.id))

    def _search(self, process_id: str, number: int) -> None:
        slot = self.slots.get(number)
        if slot is None or not slot.leads or self._gone.since(process_id) is None:
            return  # another server leads the slot, or the process is back
        left = [record for record in slot.store.records() if record.session == process_id]
        self._departures.lost(LostRecord(slot, record, leaves_tombstone=False, gone=process_id) for record in left)

    # --- for people --------------------------------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """What this server did since its start, and what it holds. The repairs are 0 in a quiet cluster."""
        led = list(self.slots.led())
        counted = ("session_repairs", "follower_repairs", "takeover_differences", "slots_served_incomplete")
        return {
            "slots_led": len(led),
            "slots_followed": len(self.slots.held) - len(led),
            "slots_unsettled": len(self.slots.unsettled()),
            "registrations": self.slots.registrations(),
            **{name: self._counters[name] for name in (*counted, "services_copied")},
            "changes_sent": self.changes.sent,
            "records_replicated": self._streams.records,
            **self._departures.counters(),
        }
