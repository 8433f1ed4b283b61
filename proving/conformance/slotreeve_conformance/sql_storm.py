"""Random troubles of single statements, from a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from slotreeve_conformance.sql_schedule import Moment, Rule, Schedule, Stop

MOST_RULES = 6
"""Rules at once; the oldest ends when there are more."""


class SqlStorm:
    """Holds, delays and cuts statements of random nodes.

    Attributes:
        count: troubles so far.
    """

    def __init__(
        self, schedule: Schedule, nodes: Sequence[str], patterns: Sequence[str], rng: random.Random, unit_seconds: float
    ) -> None:
        """``patterns``: of the statements that are worth it. ``unit_seconds``: about how long a statement is held."""
        self._schedule, self._nodes, self._patterns = schedule, nodes, patterns
        self._rng, self._unit = rng, unit_seconds
        self._rules: list[Rule] = []
        self.count = 0

    async def rage(self, seconds: float) -> None:
        """One trouble after the other for so long, and then none any more."""
        ends_at = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends_at:
            self._rules.append(self._trouble())
            self.count += 1
            if len(self._rules) > MOST_RULES:
                self._rules.pop(0).end()
            await asyncio.sleep(self._rng.uniform(0.0, self._unit))
        self._schedule.clear()

    def _trouble(self) -> Rule:
        rng = self._rng
        node = rng.choice([*self._nodes, None])
        moment = rng.choice(list(Moment))
        stop = Stop(node, rng.choice(self._patterns), moment, nth=rng.randint(1, 3), times=rng.choice([1, 1, 2, 5]))
        match rng.randrange(4):
            case 0:
                return self._schedule.hold(stop)
            case 1:
                return self._schedule.cut(stop)
            case _:
                return self._schedule.delay(stop, rng.choice([0.1, 0.5, 1.0, 2.5]) * self._unit)
