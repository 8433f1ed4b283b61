"""Checks of a slot table and of its successor (invariants I4 and I5), as pure functions.

The meta leader calls them before it commits a table. Authors of assigners and balancers call them in tests.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from slotreeve.errors import InvalidTable
from slotreeve.model.nodes import Server
from slotreeve.model.slots import Slot, SlotTable


def check_table(
    table: SlotTable,
    servers: Sequence[Server],
    replicas: int,
    is_committed: bool = False,
    acting: Collection[str] = (),
) -> None:
    """Check invariant I5: slot ``i`` is at index ``i``; each slot has a leader and ``min(replicas, servers) - 1``
    followers, all of them different live servers. The empty table of a cluster without servers is valid. A committed
    table may have more followers, or learners in the place of some, while slots move. What a plugin plans has neither.
    A server that only acts (``acting``) may lead a slot that no live server follows.

    Raises:
        InvalidTable: names the first wrong slot, what is wrong with it, and what would be right.
    """
    live = {server.name for server in servers}
    needed = min(replicas, len(live)) - 1
    for index, slot in enumerate(table.slots):
        if slot.id != index:
            raise InvalidTable(f"slot {slot.id} stands at index {index}; slot i must stand at index i")
        holders = live | {str(slot.leader)} if slot.is_led_alone(acting, live) else live
        if problem := _problem(slot, holders, needed, is_committed):
            raise InvalidTable(f"slot {slot.id} {problem}")


def _problem(slot: Slot, live: set[str], needed: int, is_committed: bool) -> str | None:
    """What is wrong with one slot; None if nothing is."""
    holders = slot.holders
    if slot.leader is None:
        return "has no leader"
    if slot.leader in holders[1:]:
        return f"lists its leader {slot.leader} as a follower or learner too"
    if len(set(holders)) < len(holders):
        return f"lists a follower or learner twice: {', '.join(holders[1:])}"
    if not live.issuperset(holders):
        return f"is held by {', '.join(sorted(h for h in holders if h not in live))}, not among the live servers"
    copies, wanted = len(slot.followers), f"with {len(live)} live servers it must have {needed}"
    if is_committed:
        return None if len(holders) > needed else f"has {len(holders) - 1} followers and learners; {wanted}"
    if slot.learners:
        return f"has the learners {', '.join(slot.learners)}; a plan must have none"
    return None if copies == needed else f"has {copies} followers; {wanted}"


def check_successor(old: SlotTable, new: SlotTable) -> None:
    """Check invariant I4: ``new`` is ``old``, or has a higher epoch and as many slots. A slot whose leader changed has
    the new epoch as leader epoch; the leader epoch of any other slot is unchanged. Any table of a positive epoch may
    follow the empty table.

    Raises:
        InvalidTable: ``new`` must not follow ``old``; the message says why.
    """
    if new is old or new == old:
        return
    if new.epoch <= old.epoch:
        raise InvalidTable(f"a changed table of epoch {new.epoch} cannot follow epoch {old.epoch}; it must be higher")
    if old.slots and len(new.slots) != len(old.slots):
        raise InvalidTable(f"the number of slots cannot change from {len(old.slots)} to {len(new.slots)}")
    before = old.slots or SlotTable.unassigned(len(new.slots)).slots
    for a, b in zip(before, new.slots, strict=True):
        right = a.leader_epoch if a.leader == b.leader else new.epoch
        if b.leader_epoch != right:
            raise InvalidTable(
                f"slot {b.id}: the leader was {a.leader} and is {b.leader}, so its epoch must be {right}, "
                f"not {b.leader_epoch}"
            )


def stamp(old: SlotTable, table: SlotTable, epoch: int) -> SlotTable:
    """``table`` as the successor of ``old``, under ``epoch``. A slot whose leader differs from ``old``'s gets ``epoch``
    as leader epoch, any other slot ``old``'s leader epoch. The epochs of ``table`` are ignored. ``old`` may be empty.

    Raises:
        InvalidTable: ``epoch`` is not higher than ``old``'s, or the number of slots differs.
    """
    before = old.slots or SlotTable.unassigned(len(table.slots)).slots
    if len(before) != len(table.slots):
        raise InvalidTable(f"the number of slots cannot change from {len(before)} to {len(table.slots)}")
    if epoch <= old.epoch:
        raise InvalidTable(f"epoch {epoch} cannot follow epoch {old.epoch}; it must be higher")
    return SlotTable(epoch, tuple(_stamped(a, b, epoch) for a, b in zip(before, table.slots, strict=True)))


def _stamped(before: Slot, after: Slot, epoch: int) -> Slot:
    right = before.leader_epoch if before.leader == after.leader else epoch
    return after if after.leader_epoch == right else msgspec.structs.replace(after, leader_epoch=right)
