"""Whether a balancer comes to an end.

Each step of a balancer is a new slot table that every server takes over, and often a copy of slots. A balancer must
come to a table that it leaves as it is (:class:`slotreeve.ports.Balancer`). One that undoes its own steps, or always
finds another one, would move slots for ever (docs/decisions/0036-a-balancer-comes-to-an-end.md). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotreeve.model.nodes import Server
from slotreeve.model.slots import SlotTable

STEPS_PER_COPY = 4
"""A balancer that has made this many steps for each copy of a slot, with no other change between, does not end."""


class BalancerSteps:
    """The tables that a balancer's steps have led to, one after the other, with no other change between them.

    Args:
        copies: copies of all slots that the cluster keeps.
    """

    def __init__(self, copies: int) -> None:
        self._most_steps = STEPS_PER_COPY * copies
        self._left = set[int]()
        self._led_to: int | None = None
        self._loads = 0

    def fault(self, table: SlotTable, servers: Sequence[Server], loads: int = 0) -> str | None:
        """Why a further step from ``table`` would not come to an end; None if it may. Any other change of the table or
        of the servers is a new beginning. So is another version of the ``loads``, if a plugin looks at them: when they
        are again as they were, the table may be, too."""
        shape = _shape(table, servers)
        if shape != self._led_to or loads != self._loads:
            self._left.clear()
            self._led_to, self._loads = shape, loads
        if shape in self._left:
            return f"{len(self._left)} steps led back to a table that they had changed"
        if len(self._left) >= self._most_steps:
            return f"{len(self._left)} steps, one after the other, have led to no table that stays"
        return None

    def step(self, before: SlotTable, after: SlotTable, servers: Sequence[Server]) -> None:
        """The balancer's step leads from ``before`` to ``after``."""
        self._left.add(_shape(before, servers))
        self._led_to = _shape(after, servers)


def _shape(table: SlotTable, servers: Sequence[Server]) -> int:
    """Who holds which slot, and the servers, whatever the epochs."""
    return hash((frozenset(servers), tuple([(slot.leader, *sorted(slot.followers)) for slot in table.slots])))
