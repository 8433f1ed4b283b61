"""The port of balancers: they spread the slots of a complete table evenly over the servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, SlotTable


@runtime_checkable
class Balancer(Protocol):
    """Evens out a complete table, one step each call. A pure function: it breaks ties by name."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """The next step towards an even table; None if the table is even enough.

        ``table`` is complete and names only ``servers``. The caller asks for the next step once all servers report that
        this one's slots are in sync, so a step should be small enough not to overload servers. Repeated calls must
        reach None; a balancer whose steps lead round in a circle is not asked again before servers join or leave, or
        before loads change if it looks at them (:class:`slotreeve.ports.LoadAware`). A leader should move to a follower
        of the slot: another server must copy the slot before it can be read. The caller treats an invalid result as it
        treats an assigner's.
        """
