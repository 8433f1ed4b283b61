"""The port of assigners: who fills the places that a slot lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, SlotTable


@runtime_checkable
class Assigner(Protocol):
    """Fills slots that lack a leader or followers. A pure function; ties are broken by name, never by hash order."""

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """Give every slot a leader and ``min(limits.replicas, len(servers)) - 1`` followers among ``servers``.

        ``table`` may name servers that are gone: they are removed first. Slots that are complete stay as they are.
        Returns None when nothing is to be done. A result that is not valid (invariant I5) is rejected by the
        caller, logged and counted, and the old table stays. Raising counts as an invalid result. ``servers`` is
        never empty and may be in any order.
        """
