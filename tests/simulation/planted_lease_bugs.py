"""Bugs of leases to plant in the product; see ``planted_bugs``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import replace

from msgspec import structs
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.leases import lease_suffix
from slotreeve_protocol.slot_messages import Access, SlotAnswer, SlotEpoch
from slotreeve_servers.data.endings.brake import Brake, EndTallies, HeldCounts
from slotreeve_servers.data.endings.ending import EndingState
from slotreeve_servers.data.endings.lease_keeper import LeaseKeeper
from slotreeve_servers.data.replication.following import FollowedLeaders
from slotreeve_servers.data.replication.in_sync import InSync
from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.meta.arranging import arranger, copy_steps
from slotreeve_servers.meta.arranging.arranger import CopyReports
from slotreeve_servers.meta.arranging.copy_steps import CopyReport, Rank, RowChange
from slotreeve_servers.meta.members.heartbeats import LastHeartbeats
from slotreeve_servers.node.outbox import Peer
from slotreeve_simulator.process_clock import ProcessClock

from tests.simulation.planting import Patch, bug, replaced


@bug("a machine's clock stands still while the machine is suspended", "suspended")
def _clock_stands_still_in_suspend() -> Patch:
    now = ProcessClock.now
    return replaced(ProcessClock, "now", lambda self: now(self) - self.slept)


@bug("a new leader counts what is left of a lease from its registration, and grants nothing anew", "leases")
def _no_new_time_for_leases() -> Patch:
    return _taken_over_as(lambda record, begin: (record, begin - record.incarnation / 1000 - 4))


@bug("a follower copies leases without their time to live, and has the shortest one", "leases")
def _time_to_live_not_copied() -> Patch:
    return _taken_over_as(lambda record, begin: (structs.replace(record, incarnation=0), begin - 3))


def _taken_over_as(change: Callable[[Publisher, float], tuple[Publisher, float]]) -> Patch:
    """A lease that begins later than now is one that is taken over."""
    begin = LeaseKeeper.begin

    def changed(self: LeaseKeeper, slot: HeldSlot, record: Publisher, now: float) -> None:
        begin(self, slot, *(change(record, now) if now > self._outbox.attended() else (record, now)))

    return replaced(LeaseKeeper, "begin", changed)


@bug("a lease ends its time to live after its registration, however often it is renewed", "leases")
def _ends_from_registration() -> Patch:
    renew = LeaseKeeper.renew

    def only_unknown(
        self: LeaseKeeper, slot: HeldSlot, data_info_id: str, lease_ids: Iterable[str], now: float
    ) -> list[str]:
        suffix = lease_suffix(data_info_id)
        unheld = [each for each in lease_ids if not self._endings.of(slot, data_info_id, each + suffix)]
        return renew(self, slot, data_info_id, unheld, now)

    return replaced(LeaseKeeper, "renew", only_unknown)


@bug("the end of a lease is acknowledged before the followers have it", "copies", 1600000001)
def _end_not_confirmed() -> Patch:
    end = LeaseKeeper._end

    def changed(self: LeaseKeeper, slot: HeldSlot, data_info_id: str, lease_ids: list[str]) -> list[str]:
        slot.leases_written -= 1
        return end(self, slot, data_info_id, lease_ids)

    return replaced(LeaseKeeper, "_end", changed)


@bug("a renewal of a lease that there is not is answered as if it were there", "leases", 3)
def _unknown_is_known() -> Patch:
    renew = LeaseKeeper.renew

    def known(self: LeaseKeeper, slot: HeldSlot, data_info_id: str, lease_ids: Iterable[str], now: float) -> list[str]:
        renew(self, slot, data_info_id, lease_ids, now)
        return []

    return replaced(LeaseKeeper, "renew", known)


@bug("leases that nobody renews stay", "leases")
def _leases_never_end() -> Patch:
    return replaced(LeaseKeeper, "may_end", lambda self, lease: False)


@bug("the brake holds for ever", "leases")
def _brake_for_ever() -> Patch:
    return replaced(Brake, "has_held_longest", lambda self, since, now: False)


@bug("what is renewed while it is due ends nevertheless", "leases", 3)
def _due_ends_although_renewed() -> Patch:
    renew = LeaseKeeper.renew

    def only_waiting(
        self: LeaseKeeper, slot: HeldSlot, data_info_id: str, lease_ids: Iterable[str], now: float
    ) -> list[str]:
        suffix = lease_suffix(data_info_id)

        def is_late(lease_id: str) -> bool:
            held = self._endings.of(slot, data_info_id, lease_id + suffix)
            return any(each.state is not EndingState.WAITING for each in held)

        return renew(self, slot, data_info_id, [each for each in lease_ids if not is_late(each)], now)

    return replaced(LeaseKeeper, "renew", only_waiting)


@bug("every learner counts as ready", "copies")
def _every_learner_is_ready() -> Patch:
    original = LastHeartbeats.reports

    def reports(self: LastHeartbeats, table: SlotTable, members: Iterable[str] = ()) -> CopyReports:
        ready = {slot.id: CopyReport(frozenset(slot.learners)) for slot in table.slots}
        return replace(original(self, table, members), by_slot=ready)

    return replaced(LastHeartbeats, "reports", reports)


@bug("a follower or learner says that it has everything while it still copies", "copies")
def _confirms_while_it_copies() -> Patch:
    def confirmation(self: FollowedLeaders, peer: Peer, asked: SlotEpoch, is_current: bool) -> SlotAnswer:
        return SlotAnswer(asked.slot, Access.ACCEPT, asked.leader_epoch)

    return replaced(FollowedLeaders, "_confirmation", confirmation)


@bug("acknowledgements do not wait for a learner that was reported as ready", "copies")
def _reports_do_not_bind() -> Patch:
    return replaced(InSync, "needed", lambda self, slot: set(slot.slot.followers))


@bug("acknowledgements wait for nobody", "copies")
def _nobody_is_needed() -> Patch:
    return replaced(InSync, "needed", lambda self, slot: set())


@bug("a server goes before the one that replaces it is in sync", "copies")
def _dropped_too_early() -> Patch:
    def drop(change: RowChange, target: Slot, why: str, unfit: Set[str]) -> None:
        for name in change.row.followers:
            if name not in target.holders:
                change.drop(name, why)

    return replaced(copy_steps, "_drop", drop)


@bug("a process that was started again counts as in sync where the one before it was", "copies")
def _started_again_in_sync() -> Patch:
    def without(slot: Slot, replaced: Set[str]) -> Slot:
        leader = None if slot.leader in replaced else slot.leader
        return Slot(slot.id, leader, slot.leader_epoch, slot.followers, slot.learners)

    return replaced(arranger, "_without", without)


@bug("a learner leads where a server in sync lives", "copies")
def _learners_first() -> Patch:
    original = copy_steps._succeed

    def succeed(change: RowChange, target: Slot, live: Set[str], rank: Rank, why: str) -> None:
        in_sync = change.row.followers if live & set(change.row.learners) else ()
        original(change, target, live - set(in_sync), rank, why)

    return replaced(copy_steps, "_succeed", succeed)


@bug("a follower that its leader does not reach stays in the set, and no lease can be registered", "leases")
def _unreached_stays_in_sync() -> Patch:
    return replaced(InSync, "_lose", lambda _self, _copies, _name: None)


@bug("the brake forgets at once what it has let end", "waves")
def _brake_forgets() -> Patch:
    looked = Brake.looked

    def forget(self: Brake, ended: EndTallies, held: HeldCounts, now: float) -> None:
        looked(self, {}, held, now)

    return replaced(Brake, "looked", forget)
