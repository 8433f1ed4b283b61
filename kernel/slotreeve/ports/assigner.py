"""The port of assigners: they fill slots that lack a leader or followers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, SlotTable


@runtime_checkable
class Assigner(Protocol):
    """Fills slots that lack a leader or followers. A pure function: it breaks ties by name, never by hash order."""

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """Give every slot a leader and ``min(limits.replicas, len(servers)) - 1`` followers among ``servers``.

        ``table`` may name servers that have left; they are removed first. Complete slots are not changed. ``servers``
        is never empty and may be in any order. Returns None if there is nothing to do.

        The caller rejects a result that breaks invariant I5, or whose moves do not lead from ``table`` to its table:
        it logs and counts it, and keeps the old table. It treats an exception as such a result.
        """
