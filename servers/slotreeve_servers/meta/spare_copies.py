"""Spare copies: a server that a balancer takes a slot from keeps its copy until the new one is complete.

A balancer's plan moves a copy in one step, from one server to another. While the new one is copied, the leader would
have the only complete copy, and its death would cost what is nowhere else: leases. So the arranger lets the former
holder follow for one table more. It stands behind the other followers then. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Set

import msgspec
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Move, Slot, SlotTable


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
