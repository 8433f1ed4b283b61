"""The data server: stores, replicates, compares, tells."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from slotreeve.errors import SlotreeveError
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Connection, Listener
from slotreeve_protocol.client_messages import Datum, ListServices, Services
from slotreeve_protocol.meta_messages import Stopping, View
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    DeclareInterest,
    Fetch,
    Follow,
    Replicate,
    SlotAnswer,
    SlotWrite,
    Write,
)

from slotreeve_servers.data.changes import Changes
from slotreeve_servers.data.departures import Departures
from slotreeve_servers.data.digest import SessionComparison
from slotreeve_servers.data.interest import SessionInterests
from slotreeve_servers.data.orphans import Orphans
from slotreeve_servers.data.replication import FollowedLeader, Streams
from slotreeve_servers.data.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.dispatch import Dispatcher
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.links import Links
from slotreeve_servers.node.membership import NO_VIEW, Membership
from slotreeve_servers.node.supervisor import Supervisor

log = logging.getLogger("slotreeve.data")

SLOTS_PER_TURN = 8


class DataServer:
    """One data process. ``start`` listens and joins; ``stop`` says goodbye and leaves."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._clock, self._rules = environment.clock, environment.settings.data
        self._supervisor = Supervisor(environment.clock)
        self._repairs: Counter[str] = Counter()
        self.slots = HeldSlots(environment.node.name)
        self.changes = Changes(environment.clock)
        self.streams = Streams(environment.clock)
        self._orphans = Orphans(self._rules.session_grace_seconds)
        self._departures = Departures(
            environment.clock, self.slots.held.get, self._store, self._parted, self._connected_sessions,
            self._rules.session_grace_seconds,
        )  # fmt: skip
        self._comparisons: dict[Connection, SessionComparison] = {}
        self._followings: dict[Connection, FollowedLeader] = {}
        self._interest = SessionInterests(self.slots, self.changes)
        self._listener: Listener | None = None
        self._membership: Membership | None = None
        self._is_member = False
        self._dispatcher = Dispatcher(
            {
                Write: self._on_write,
                DeclareInterest: self._on_interest,
                Fetch: self._on_fetch,
                ListServices: self._on_list,
                Follow: self._on_follow,
            },
            self._opened,
            self._closed,
            self.counters,
        )
        leaders = Dispatcher({Replicate: self._on_replicate}, self._leader_opened, self._leader_closed)
        self._leaders = Links(environment.transport, self._clock, self._supervisor, environment.hello, leaders)

    @property
    def given_up(self) -> asyncio.Future[SlotreeveError]:
        """Done once this server cannot go on, with the error for its operator."""
        return self._supervisor.given_up

    @property
    def view(self) -> View:
        """The newest view of the cluster that this server knows."""
        return self._membership.view if self._membership is not None else NO_VIEW

    @property
    def address(self) -> str:
        """Where this server listens."""
        return self._listener.address if self._listener is not None else self._environment.bind

    def counters(self) -> dict[str, int]:
        """What this server did since its start, and what it holds. The repairs are 0 in a quiet cluster."""
        unsettled = self.slots.unsettled()
        led = list(self.slots.led())
        return {
            "slots_led": len(led),
            "slots_followed": len(self.slots.held) - len(led),
            "slots_unsettled": len(unsettled),
            "registrations": sum(len(s) for slot in led for s in slot.store.services.values()),
            "session_repairs": self._repairs["session_repairs"],
            "follower_repairs": self._repairs["follower_repairs"],
            "takeover_differences": self._repairs["takeover_differences"],
            "slots_served_incomplete": self._repairs["slots_served_incomplete"],
            "services_copied": self._repairs["services_copied"],
            "changes_sent": self.changes.sent,
            "records_replicated": self.streams.records,
            **self._environment.common_counters(self._supervisor),
        }

    async def start(self) -> None:
        """Listen, then join the cluster.

        Raises:
            AddressInUse: cannot listen.
        """
        self._listener = await self._environment.transport.listen(
            self._environment.bind, self._environment.hello(), self._dispatcher
        )
        self._membership = Membership(self._environment, self._supervisor, self._view_changed, self.slots.unsettled)
        self._supervisor.start("repair", self._repair)
        self._supervisor.start("overdue", self._overdue)

    async def stop(self, how: Stopping = Stopping.FOR_GOOD) -> None:
        """Hand over the slots (``how`` NO: do not), leave the cluster, close every connection.

        For good: until it holds nothing; for a restart: until it leads nothing, keeping its places as follower. Either
        way not longer than ``data.drain_seconds``.
        """
        if self._membership is not None:
            if how is not Stopping.NO:
                await self._membership.may_leave(how, self._rules.drain_seconds)
            restarts = how is Stopping.FOR_A_RESTART
            back = self._environment.settings.meta.restart_seconds if restarts else 0.0
            await self._membership.leave("stopped for a restart" if restarts else "stopped", back)
        await self._supervisor.stop()
        if self._listener is not None:
            await self._listener.close()
        if self._environment.events is not None:
            self._environment.events.close()

    # --- slots ---------------------------------------------------------------------------------------------------

    def _view_changed(self, old: View, view: View) -> None:
        alive = {node.process_id for node in view.sessions}
        self._orphans.view_changed({node.process_id for node in old.sessions}, alive, self._clock.now())
        led, followed = self.slots.apply(self._table_of(view))
        for slot in led:
            slot.led_since = self._clock.now()
        for slot in self.slots.led():
            self._serve_if_complete(slot)
        for comparison in self._comparisons.values():
            comparison.add(slot.slot.id for slot in led)
        addresses = {node.name: node.address for node in view.data}
        wanted = {slot.slot.leader for slot in self.slots.held.values() if not slot.leads}
        self._leaders.aim({name: addresses[name] for name in wanted if name in addresses})
        for connection, following in self._followings.items():
            following.add(s.slot.id for s in followed if s.slot.leader == connection.peer.node)
        if led or followed:
            log.info(
                "table %d: %d slots newly led, %d newly followed", view.table.epoch, len(led), len(followed),
                extra={"epoch": view.table.epoch, "led": len(led), "followed": len(followed)},
            )  # fmt: skip

    def _table_of(self, view: View) -> SlotTable:
        """The view's table; before this process is a member, without the slots that its former life leads there: under
        the same leader epoch two processes would count versions (I6, I11)."""
        node = self._environment.node
        self._is_member = self._is_member or any(other.process_id == node.process_id for other in view.data)
        if self._is_member:
            return view.table
        return SlotTable(view.table.epoch, tuple([row for row in view.table.slots if row.leader != node.name]))

    def _serve_if_complete(self, slot: HeldSlot) -> None:
        if slot.serving:
            return
        sessions = self._sessions()
        missing = sessions - slot.compared
        if missing and not self._is_emergency(slot, sessions, missing):
            return
        slot.serve()
        self._orphans.adopt(slot.store, self._clock.now())
        self._interest.announce(slot, slot.compared)
        if self._membership is not None:
            self._membership.beat_soon()

    def _is_emergency(self, slot: HeldSlot, sessions: set[str], missing: set[str]) -> bool:
        """Whether to serve without the one session server, of several, that has not answered for too long
        (original: ``SlotManagerImpl``'s emergency). What only that server knows is missing until it answers."""
        after = self._rules.emergency_seconds
        if not after or len(missing) > 1 or len(sessions) == 1 or self._clock.now() - slot.led_since < after:
            return False
        self._repairs["slots_served_incomplete"] += 1
        log.error(
            "ALARM: slot %d is served without what %s knows, which has not answered for %g s (data.emergency_seconds)",
            slot.slot.id, *missing, after, extra={"slot": slot.slot.id},
        )  # fmt: skip
        return True

    def _sessions(self) -> set[str]:
        """The session processes whose records a slot must hold: the members, and those that are connected although
        the meta leader has lost sight of them."""
        members = {node.process_id for node in self.view.sessions}
        return members | {connection.peer.process_id for connection in self._comparisons}

    def _parted(self, record: Publisher) -> None:
        """What a session server that is gone cannot write down."""
        events = self._environment.events
        if events is not None and record.session not in {node.process_id for node in self.view.sessions}:
            events.expired(record)

    def _connected_sessions(self) -> dict[str, Connection | None]:
        connections = {connection.peer.process_id: connection for connection in self._comparisons}
        return {node.process_id: connections.get(node.process_id) for node in self.view.sessions}

    def _compared(self, slot: HeldSlot, process: str) -> None:
        slot.compared.add(process)
        if slot.serving:
            self._interest.announce(slot, {process})
        else:
            self._serve_if_complete(slot)

    def _store(self, slot: HeldSlot, write: SlotWrite) -> None:
        touched = slot.apply(write, self._clock.now())
        if slot.streams:
            self.streams.send(slot, write)
        if touched:
            self.changes.changed(slot, touched)

    # --- sessions and followers ----------------------------------------------------------------------------------

    def _opened(self, connection: Connection) -> None:
        if connection.peer.role is Role.SESSION:
            comparison = self._comparisons[connection] = SessionComparison(
                connection, self._clock, self._rules.compare_timeout_seconds,
                self.slots.held.get, self._store, self._departures.add, self._compared, self._repairs,
            )  # fmt: skip
            comparison.add(slot.slot.id for slot in self.slots.led())

    def _closed(self, connection: Connection, reason: str) -> None:
        self._comparisons.pop(connection, None)
        self.changes.forget(connection)
        self._interest.closed(connection)
        for slot in self.slots.led():
            slot.streams.discard(connection)
            self._serve_if_complete(slot)

    def _on_write(self, connection: Connection, message: Write, request_id: int | None) -> None:
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
                    self._departures.add(slot, batch.gone, [])
                    batch = SlotWrite(batch.slot, batch.leader_epoch, batch.records, [], [])
                self._store(slot, batch)
            answers.append(SlotAnswer(batch.slot, access, slot.slot.leader_epoch))
        if request_id is not None:
            connection.reply(request_id, Answers(answers))

    def _on_interest(self, connection: Connection, message: DeclareInterest, request_id: int | None) -> None:
        answers = [self._interest.declare(connection, interest) for interest in message.interests]
        if request_id is not None:
            connection.reply(request_id, Answers(answers))

    def _on_fetch(self, connection: Connection, message: Fetch, request_id: int | None) -> None:
        if request_id is None:
            return
        slot = self.slots.held.get(message.slot)
        access = slot.access(message.leader_epoch) if slot is not None else Access.MOVED
        if slot is None or access is not Access.ACCEPT:
            epoch = slot.slot.leader_epoch if slot is not None else 0
            connection.reply(request_id, Answers([SlotAnswer(message.slot, access, epoch)]))
            return
        service = slot.tracked.get(message.data_info_id)
        version = slot.version if service is None else service.version
        records = list(slot.store.services.get(message.data_info_id, {}).values())
        connection.reply(request_id, Datum(message.data_info_id, version, records))

    def _on_list(self, connection: Connection, message: ListServices, request_id: int | None) -> None:
        if request_id is not None:
            counts = {
                data_info_id: len(service)
                for slot in self.slots.led()
                for data_info_id, service in slot.store.services.items()
                if data_info_id.startswith(message.prefix)
            }
            connection.reply(request_id, Services(counts))

    def _on_follow(self, connection: Connection, message: Follow, request_id: int | None) -> None:
        if request_id is not None:
            connection.reply(request_id, self.streams.answer(self.slots.held.get, connection, message))

    # --- following -----------------------------------------------------------------------------------------------

    def _leader_opened(self, connection: Connection) -> None:
        following = self._followings[connection] = FollowedLeader(
            connection, self._clock, self.slots.held.get, self._follower_synced, self._repairs
        )
        following.add(number for number, slot in self.slots.held.items() if self._is_leader(connection, slot))

    def _leader_closed(self, connection: Connection, reason: str) -> None:
        self._followings.pop(connection, None)
        for slot in self.slots.held.values():
            if self._is_leader(connection, slot):
                slot.synced = False

    @staticmethod
    def _is_leader(connection: Connection, slot: HeldSlot) -> bool:
        return not slot.leads and slot.slot.leader == connection.peer.node

    def _follower_synced(self) -> None:
        if self._membership is not None and not self.slots.unsettled():
            self._membership.beat_soon()

    def _on_replicate(self, connection: Connection, message: Replicate, request_id: int | None) -> None:
        now = self._clock.now()
        for batch in message.batches:
            slot = self.slots.held.get(batch.slot)
            if slot is not None and not slot.leads and slot.slot.leader_epoch == batch.leader_epoch:
                slot.apply(batch, now)

    # --- loops ---------------------------------------------------------------------------------------------------

    async def _repair(self) -> None:
        while True:
            await self._clock.sleep(self._rules.repair_seconds)
            before = self._clock.now() - self._rules.tombstone_seconds
            numbers = sorted(self.slots.held)
            for start in range(0, len(numbers), SLOTS_PER_TURN):
                part = numbers[start : start + SLOTS_PER_TURN]
                for number in part:
                    if (slot := self.slots.held.get(number)) is not None:
                        slot.store.compact(before)
                quiet = [n for n in part if (slot := self.slots.held.get(n)) is not None and not slot.departing]
                for comparison in self._comparisons.values():
                    comparison.add(quiet)
                for following in self._followings.values():
                    following.add(part)
                await self._clock.sleep(0.01)

    async def _overdue(self) -> None:
        """Part with publishers whose session server is gone for good; serve slots that waited too long."""
        while True:
            await self._clock.sleep(0.25)
            for slot in list(self.slots.led()):
                self._serve_if_complete(slot)
            for process in self._orphans.due(self._clock.now()):
                log.warning("session process %s did not come back: its publishers are removed", process)
                for slot in list(self.slots.led()):
                    if left := [record for record in slot.store.records() if record.session == process]:
                        self._departures.add(slot, [], left)
                    await self._clock.sleep(0)
