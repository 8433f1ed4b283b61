"""The processor of one simulated process: handling a message takes virtual time, so that work can pile up.

The costs are those of ``benchmarks/handlers.py``, which measures the product's own handlers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources

SHORTEST_SECONDS = 1e-6
"""A shorter wait counts as none: the event loop runs timers early by its clock's resolution, and would not advance."""
TIMER_SECONDS = 10e-6
"""Cost of a timer."""


def load_costs() -> tuple[float, float]:
    """Seconds a packet, and seconds a byte, on a machine of the year 2024 (measured by ``benchmarks/handlers.py``)."""
    text = (resources.files("slotreeve_simulator") / "costs.json").read_text()
    costs = json.loads(text)
    return costs["microseconds_per_packet"] * 1e-6, costs["nanoseconds_per_byte"] * 1e-9


class SimulatedProcessor:
    """One processor, which one process has for itself. ``now`` returns the virtual time of the run in seconds.

    Attributes:
        slowness: everything takes so many times as long: the process shares its processor with others.
    """

    def __init__(self, now: Callable[[], float], costs: tuple[float, float]) -> None:
        self._now = now
        self._per_packet, self._per_byte = costs
        self._free_at = 0.0
        self.slowness = 1.0

    def busy_for(self) -> float:
        """Seconds until it can begin with something else; 0 where it is free."""
        wait = self._free_at - self._now()
        return wait if wait > SHORTEST_SECONDS else 0.0

    def handled(self, size: int) -> None:
        """A packet of ``size`` bytes was handled: the next one waits until that is over."""
        self._spend(self._per_packet + size * self._per_byte)

    def timer_ran(self) -> None:
        """A timer was handled."""
        self._spend(TIMER_SECONDS)

    def stall(self, seconds: float) -> None:
        """The process gets no processor for so long."""
        self._free_at = max(self._free_at, self._now()) + seconds

    def _spend(self, seconds: float) -> None:
        self._free_at = max(self._free_at, self._now()) + seconds * self.slowness
