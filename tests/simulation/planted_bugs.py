"""Bugs to plant in the product, to see that the simulator finds them.

Each is a small patch of one method. ``planted_evidence_bugs`` has more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from slotreeve.model import data_info
from slotreeve.model.draft import Draft
from slotreeve.model.nodes import Server
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_client import core as client_core
from slotreeve_client import publication
from slotreeve_client.core import ClientCore
from slotreeve_election_mysql.machine import Machine
from slotreeve_protocol import provided
from slotreeve_protocol.meta_messages import View
from slotreeve_protocol.slot_messages import Access, SlotDifference, SlotWrite
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.endings.barrier import Barrier
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.data.replication.comparison import SessionComparison
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.meta.arranging import next_table
from slotreeve_servers.meta.arranging.arranger import NOBODY_LEAVES, Arranger, Leaving
from slotreeve_servers.meta.arranging.loads import NO_LOADS, Loads
from slotreeve_servers.meta.arranging.next_table import Situation
from slotreeve_servers.meta.arranging.table import CommittedView
from slotreeve_servers.node.links import Links
from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.records import SlotStore
from slotreeve_servers.session.push import push as session_push
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.records.registrations import Departure, Registrations
from slotreeve_servers.session.records.writes import Writes

from tests.simulation.planting import Patch, both, bug, replaced, returning

# --- election --------------------------------------------------------------------------------------------------------


def _election(module: str) -> Any:
    """A module of the fle plugin; found by name, since only this room plants bugs in it."""
    from importlib import import_module

    return import_module(f"slotreeve_election_fle.{module}")


@bug("a candidate proposes an epoch that was used before, and voters accept what is not higher", "elections")
def _accept_lower_term() -> Patch:
    handshake, following = _election("handshake"), _election("following")
    proposal = handshake.EpochProposal
    right = proposal.proposal

    def propose(self: Any) -> int | None:
        return None if right(self) is None else max(1, self._reports[self._sid])

    ledger = _election("ledger").Ledger

    def accept(self: Any, epoch: int) -> list[Any]:
        self.accepted_epoch = epoch
        return []

    return both(
        replaced(following, "judge", lambda accepted_epoch, proposed_epoch: handshake.EpochVerdict.ACCEPT),
        replaced(ledger, "accept", accept),
        replaced(proposal, "proposal", propose),
    )


@bug("any one meta server is a quorum", "elections")
def _quorum_of_one() -> Patch:
    return replaced(_election("quorum").Quorum, "contains", lambda self, sids: bool(self.voters & set(sids)))


@bug("a leader acts on after its lease has ended", "elections")
def _act_without_lease() -> Patch:
    leading = _election("leading").Leading
    return replaced(leading, "valid_until", property(lambda self: float("inf") if self.is_established else 0.0))


@bug("the owner of the lock row leads on when its renewals are not answered", "lock")
def _lead_on_without_answers() -> Patch:
    right = Machine._set_lease

    def set_lease(self: Machine, sent_at: float) -> None:
        right(self, sent_at)
        self._lease_end = float("inf")

    return replaced(Machine, "_set_lease", set_lease)


@bug("the log of the meta state is not written to the disk", "disks")
def _forget_the_log() -> Patch:
    return replaced(_election("disk").Disk, "_append", lambda _self, _entries: None)


@bug(
    "accepted epochs are not written to the disk",
    "disks",
    raises="a server whose file of epochs is older than its log refuses to start again, and says so",
)
def _forget_epochs() -> Patch:
    disk = _election("disk").Disk
    original = disk._write_epochs

    def write(self: Any, epochs: Any) -> None:
        if self._storage.read("epochs") is None:
            original(self, epochs)

    return replaced(disk, "_write_epochs", write)


# --- views and tables ------------------------------------------------------------------------------------------------


@bug("a meta server that leads again goes on from the table of the time when it last led", "elections")
def _apply_older_table() -> Patch:
    original = CommittedView.read

    def read(self: CommittedView) -> View:
        return self._view if self._version else original(self)

    async def commit(self: CommittedView, view: View, after: int) -> None:
        self._view = view
        await self._state.write("view", msgspec.msgpack.encode(view), None, view.term)

    return both(replaced(CommittedView, "read", read), replaced(CommittedView, "commit", commit))


@bug("a restarted data server goes on under the leader epochs of its former life", "data")
def _same_epoch_for_new_process() -> Patch:
    return replaced(next_table, "without_replaced", lambda table, before, now: table)


@bug("a plugin's table is not checked, and the assigner forgets a follower", "data")
def _unchecked_table() -> Patch:
    def checked(self: Arranger, role: str, plugin: Callable[..., Any], table: SlotTable, servers: Sequence[Any]) -> Any:
        plan = plugin(table, servers, self._limits)
        if plan is None or not plan.moves:
            return None
        first = plan.table.slots[0]
        rows = (Slot(first.id, first.leader, first.leader_epoch, ()), *plan.table.slots[1:])
        return type(plan)(SlotTable(plan.table.epoch, rows), plan.moves)

    return replaced(Arranger, "_checked", checked)


@bug("slots of a leader that may acknowledge alone yet are given away", "alone")
def _acting_leaders_keep_nothing() -> Patch:
    original = Arranger.arrange

    def arrange(
        self: Arranger,
        table: SlotTable,
        servers: Sequence[Any],
        reports: Any,
        leaving: Leaving = NOBODY_LEAVES,
        loads: Loads = NO_LOADS,
        target: Any = None,
    ) -> Any:
        return original(self, table, servers, reports, replace(leaving, acting=frozenset()), loads, target)

    return replaced(Arranger, "arrange", arrange)


@bug("who may acknowledge alone yet gets slots and keeps those that others follow", "copies", 7017)
def _acting_servers_hold_slots() -> Patch:
    def planned(self: Situation) -> list[Server]:
        return [node.as_server() for node in self.data]

    return replaced(Situation, "planned_servers", property(planned))


@bug("a balancer that has nothing to do lets a follower lead in turn, for ever", "data")
def _moves_never_end() -> Patch:
    original = Arranger._balance

    def balance(self: Arranger, table: SlotTable, servers: Sequence[Any], loads: Loads) -> Any:
        plan = original(self, table, servers, loads)
        if plan is None and table.slots[0].followers:
            draft = Draft(table, servers)
            draft.lead(0, table.slots[0].followers[0], "it is its turn")
            return draft.plan()
        return plan

    return replaced(Arranger, "_balance", balance)


@bug("a text that UTF-8 cannot encode is taken", "mistakes")
def _any_text_is_taken() -> Patch:
    def any_text(what: str, text: object, longest: int) -> None:
        """Take it."""

    return both(
        *(replaced(module, "check_text", any_text) for module in (client_core, data_info, publication, provided))
    )


@bug("a lost link is not made again", "network")
def _links_stay_down() -> Patch:
    original = Links.closed

    def closed(self: Links, name: str, connection: Any, reason: str) -> None:
        original(self, name, connection, reason)
        self._targets.pop(name, None)
        self._wakes.pop(name, None)

    return replaced(Links, "closed", closed)


# --- data ------------------------------------------------------------------------------------------------------------


@bug("a new slot leader serves before it has compared with the sessions", "takeover", 1)
def _serve_before_sync() -> Patch:
    return replaced(DataCore, "_to_compare", lambda _self, _slot: set())


@bug("requests under another leader epoch are taken, and replies under one are believed", "takeover")
def _skip_epoch_recheck() -> Patch:
    def access(self: HeldSlot, leader_epoch: int) -> Access:
        return Access.ACCEPT

    return replaced(HeldSlot, "access", access)


@bug("an ended registration leaves no tombstone", "retries")
def _forget_tombstone() -> Patch:
    original = SlotStore.put

    def put(self: SlotStore, record: Publisher, now: float) -> Any:
        stored = original(self, record, now)
        if record.is_tombstone:
            self.tombstones.pop(record.register_id, None)
        return stored

    return replaced(SlotStore, "put", put)


@bug("a record replaces whatever is there, newer ones too", "retries")
def _take_older_records() -> Patch:
    return replaced(Publisher, "newer_than", lambda _self, _other: True)


@bug("the versions of a slot do not rise with its leader epoch", "data")
def _versions_start_over() -> Patch:
    original = HeldSlots.apply

    def apply(self: HeldSlots, table: SlotTable, unclean: Collection[int] = ()) -> Any:
        led, followed = original(self, table, unclean)
        for slot in (*led, *followed):
            slot.version = 1
        return led, followed

    return replaced(HeldSlots, "apply", apply)


@bug("the registrations of a lost session server are never removed", "sessions")
def _orphans_stay() -> Patch:
    return replaced(SessionServers, "look", lambda _self, _is_linked: ([], []))


@bug("a comparison with one session server removes the records of the others", "data")
def _purge_what_is_not_yours() -> Patch:
    def repair(self: SessionComparison, slot: HeldSlot, difference: SlotDifference) -> None:
        records = [record for service in difference.records.values() for record in service]
        kept = {record.register_id for record in records}
        purged = [
            (data_info_id, register_id)
            for data_info_id in difference.records
            for register_id in slot.store.services.get(data_info_id, {})
            if register_id not in kept
        ]
        self._leadership.store(slot, SlotWrite(slot.slot.id, slot.slot.leader_epoch, records, [], purged))

    return replaced(SessionComparison, "_repair", repair)


@bug("a client is gone as soon as one session server says so, whatever the others have on their way", "moves", 3)
def _believe_leaving_at_once() -> Patch:
    def ask(self: Barrier) -> None:
        self._passed(True)

    return replaced(Barrier, "ask", ask)


@bug("a server takes no newer view for ten seconds after it took one", "sessions")
def _sleepy_servers() -> Patch:
    right = Membership._apply

    def apply(self: Any, peer: Peer, view: View) -> None:
        now = self._outbox.now()
        if now >= getattr(self, "sleeps_until", 0.0) or not view.data:
            self.sleeps_until = now + 10.0
            right(self, peer, view)

    return replaced(Membership, "_apply", apply)


# --- sessions --------------------------------------------------------------------------------------------------------


@bug("incarnations are stamped with the session server's wall clock", "sessions")
def _compare_wall_clocks() -> Patch:
    original = Registrations.publish

    def publish(self: Registrations, client: Any, message: Any) -> None:
        wall_ms = vars(self._outbox)["wall_ms"]()
        stamped = [
            Publisher(r.register_id, r.data_info_id, r.version, wall_ms, r.session, r.zone, r.data)
            for r in message.records
        ]
        original(self, client, type(message)(message.sequence, stamped))

    return replaced(Registrations, "publish", publish)


@bug("writes are acknowledged although the slot's leader refused them", "data", 9)
def _acknowledge_refused() -> Patch:
    def put_back(self: Writes, lane: Any, slot: int, batch: Any) -> None:
        self._acknowledge(batch)

    return replaced(Writes, "_put_back", put_back)


@bug("writes that found no leader are forgotten", "data")
def _drop_refused() -> Patch:
    return returning(Writes, "_put_back")


@bug("interest is not declared again to a slot's new leader", "data")
def _interest_stays_behind() -> Patch:
    return replaced(Interests, "declare_slots", lambda _self, _slots: None)


@bug("when a slot's leader changes, subscribers are pushed an empty service first", "data")
def _empty_push() -> Patch:
    original = Interests.declare_slots

    def declare_slots(self: Interests, slots: Any) -> None:
        slots = list(slots)
        for slot in slots:
            for service in self._by_slot.get(slot, {}).values():
                copy = service.copy
                if copy.records:
                    before, copy.records = copy.records, {}
                    copy.sums.digest, copy.version = 0, copy.version + 1
                    for group in service.groups.values():
                        group.note({key: (old, None) for key, old in before.items()})
        original(self, slots)

    return replaced(Interests, "declare_slots", declare_slots)


@bug("registrations of a client that died stay", "clients")
def _dead_clients_stay() -> Patch:
    return replaced(Registrations, "lost", lambda _self, _client: None)


@bug("changes after the first push do not reach subscribers", "clients")
def _push_once() -> Patch:
    return replaced(session_push.PushGroup, "_schedule", lambda _self: None)


# --- clients ---------------------------------------------------------------------------------------------------------


@bug("a client replays nothing at another session server", "sessions")
def _no_replay() -> Patch:
    original = ClientCore.connected

    def connected(self: ClientCore, session_process_id: str, in_another_era: bool = False) -> None:
        is_first = self.incarnation == 0
        waiting = dict(self._outbox)
        original(self, session_process_id, in_another_era)
        if not is_first:
            self._outbox = waiting

    return replaced(ClientCore, "connected", connected)


@bug("a client does not count its connections", "sessions")
def _same_incarnation() -> Patch:
    original = ClientCore.connected

    def connected(self: ClientCore, session_process_id: str, in_another_era: bool = False) -> None:
        self.incarnation = 0
        original(self, session_process_id, in_another_era)

    return replaced(ClientCore, "connected", connected)


@bug("a session server forgets a client that came back to it with the former connection", "lone")
def _forgotten_with_the_former_connection() -> Patch:
    def by_version(self: Registrations) -> Iterator[None]:
        while self._leaving:
            record, how = self._leaving.popleft()
            slot = self._slot_of(record.data_info_id)
            held = self.stores[slot].find(record)
            if held is not None and held.version <= record.version:
                self.stores[slot].purge(record.data_info_id, record.register_id)
                if how is not Departure.MOVED:
                    self._writes.submit_lost(slot, record)
            yield

    return replaced(Registrations, "_drop", by_version)
