"""The port of balancers: how a complete table becomes an even one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, SlotTable


@runtime_checkable
class Balancer(Protocol):
    """Evens out a complete table, one step a call. A pure function; ties are broken by name."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """One step towards balance, or None when the table is good enough.

        ``table`` is complete and names only ``servers``. The next step is asked for once every slot of this one is
        reported in sync, so a step should be small enough not to disturb and large enough to end soon. Repeated
        calls must reach None. A leader should move to a server that already follows the slot; where it does not,
        the slot cannot be read until it is copied. Invalid results are treated as the assigner's.
        """
