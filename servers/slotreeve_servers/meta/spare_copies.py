"""Spare copies: no server loses a copy, or leads a slot, before the next copy is complete.

A balancer's plan moves a copy in one step, from one server to another. While the new one is copied, the leader would
have the only complete copy, and its death would cost what is nowhere else: leases. So the arranger lets the former
holder follow for one table more. It stands behind the other followers then. Where a plan gives the lead to a server
without a copy, that one follows first, and leads when its copy is complete
(docs/decisions/0034-who-shall-lead-follows-first.md). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Set

import msgspec
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Move, Slot, SlotTable


def follow_first(before: SlotTable, plan: Plan, live: Set[str], held: SlotTable) -> Plan:
    """``plan``, in which a server that has no copy follows where it should lead, as long as the former leader lives.

    Args:
        before: the table that ``plan`` changes.
        live: the servers that live, also those that leave.
        held: the table with all copies, also those that ``before`` leaves out.
    """
    slots, postponed, more = list(plan.table.slots), set[int](), list[Move]()
    for number, (old, new, full) in enumerate(zip(before.slots, plan.table.slots, held.slots, strict=True)):
        if new.leader is None or new.leader == old.leader or old.leader not in live:
            continue
        if new.leader not in _holders(full):
            postponed.add(old.id)
            more += [Move(old.id, "drop", n, None, f"{n} left") for n in old.followers if n not in live]
            more.append(Move(old.id, "follower", None, new.leader, "leads once it has a copy"))
            staying = [name for name in old.followers if name in live]
            slots[number] = msgspec.structs.replace(old, followers=(*staying, new.leader))
    moves = [move for move in plan.moves if move.slot not in postponed]
    return Plan(SlotTable(plan.table.epoch, tuple(slots)), (*moves, *more))


def with_spares(before: SlotTable, plan: Plan, live: Set[str]) -> Plan:
    """``plan``, with one live former holder of ``before`` as a further follower for each holder that is new. Every copy
    of ``before`` is complete."""
    slots, moves = list(plan.table.slots), list(plan.moves)
    for number, (old, new) in enumerate(zip(before.slots, plan.table.slots, strict=True)):
        if old == new:
            continue
        added = [name for name in _holders(new) if name not in _holders(old)]
        kept = [name for name in _holders(old) if name not in _holders(new) and name in live][: len(added)]
        if kept:
            slots[number] = msgspec.structs.replace(new, followers=(*new.followers, *kept))
            moves += [Move(old.id, "follower", None, name, f"until {', '.join(added)} has a copy") for name in kept]
    return Plan(SlotTable(plan.table.epoch, tuple(slots)), tuple(moves))


def without_spares(table: SlotTable, replicas: int, lacks: Callable[[str, int], int] = lambda _n, _s: 0) -> Plan:
    """``table`` without the followers beyond ``replicas`` copies, and the moves that lead to it. First those go whose
    copy lacks most - ``lacks(server, slot)`` is 0 for one that is complete - and of equal ones the last."""
    slots, drops = list(table.slots), list[Move]()
    for number, slot in enumerate(table.slots):
        spares = len(slot.followers) - (replicas - 1)
        if spares <= 0:
            continue
        ranked = sorted((lacks(name, slot.id), place, name) for place, name in enumerate(slot.followers))
        gone = [name for _, _, name in ranked[-spares:]]
        slots[number] = msgspec.structs.replace(slot, followers=tuple(n for n in slot.followers if n not in gone))
        drops += [Move(slot.id, "drop", name, None, f"{replicas} copies are enough") for name in gone]
    return Plan(SlotTable(table.epoch, tuple(slots)), tuple(drops))


def _holders(slot: Slot) -> tuple[str, ...]:
    return (slot.leader, *slot.followers) if slot.leader is not None else slot.followers
