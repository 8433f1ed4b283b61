"""The processor of one simulated process: handling a message takes virtual time, so that work can pile up.

The costs are those of ``proving/benchmarks/handlers.py``, which measures the product's own handlers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from importlib import resources
from typing import NamedTuple

from slotreeve_simulator.packet_kinds import first_tag, message_tags

SHORTEST_SECONDS = 1e-6
"""A shorter wait counts as none: the event loop runs timers early by its clock's resolution, and would not advance."""
OTHER = "other"
"""In the file of costs: every kind of message that has no entry of its own."""
TIMER = "timer"
"""In the file of costs: running a timer."""


class Cost(NamedTuple):
    """Time that handling a packet takes: seconds a packet, and seconds a byte of it."""

    base: float
    per_byte: float


class Costs:
    """What everything costs on the machine on which ``proving/benchmarks/handlers.py`` ran.

    ``figures``: microseconds a packet and nanoseconds a byte by the name of the packet's first message.

    Attributes:
        by_tag: cost of a packet by the tag of its first message, 0 to 255.
        timer: seconds of a timer.
    """

    def __init__(self, figures: Mapping[str, tuple[float, float]]) -> None:
        tags = message_tags()
        self.by_tag = [_cost(figures[OTHER])] * 256
        for name, figure in figures.items():
            if name not in (OTHER, TIMER):
                self.by_tag[tags[name]] = _cost(figure)
        self.timer = _cost(figures[TIMER]).base


def load_costs() -> Costs:
    """The costs that ``proving/benchmarks/handlers.py`` measured."""
    text = (resources.files("slotreeve_simulator") / "costs.json").read_text()
    return Costs(json.loads(text))


class SimulatedProcessor:
    """One processor, which one process has for itself. ``now`` returns the virtual time of the run in seconds.

    Attributes:
        slowness: everything takes so many times as long: the process shares its processor with others.
        starvation: besides, so many times as long while faults starve it; else 1.
    """

    def __init__(self, now: Callable[[], float], costs: Costs) -> None:
        self._now = now
        self._by_tag, self._timer = costs.by_tag, costs.timer
        self._free_at = self._stalled_until = 0.0
        self.slowness = 1.0
        self._starved: list[float] = []
        self.starvation = 1.0

    def busy_for(self) -> float:
        """Seconds until it can begin with something else; 0 where it is free."""
        wait = max(self._free_at, self._stalled_until) - self._now()
        return wait if wait > SHORTEST_SECONDS else 0.0

    def handled(self, packet: bytes) -> None:
        """A packet was handled: the next one waits until that is over."""
        base, per_byte = self._by_tag[first_tag(packet)]
        self.spend(base + len(packet) * per_byte)

    def timer_ran(self) -> None:
        """A timer was handled."""
        self.spend(self._timer)

    def spend(self, seconds: float) -> None:
        """The process does something that takes so long on a processor that it has for itself."""
        self._free_at = max(self._now(), self._free_at) + seconds * self.slowness * self.starvation

    def starve(self, factor: float) -> Callable[[], None]:
        """From now on everything takes ``factor`` times as long besides. Returns the function that ends this, and no
        other starvation that has begun meanwhile."""
        self._starved.append(factor)
        self.starvation = math.prod(self._starved)

        def end() -> None:
            self._starved.remove(factor)
            self.starvation = math.prod(self._starved)

        return end

    def stall(self, seconds: float) -> None:
        """The process gets no processor for so long from now on."""
        self._stalled_until = max(self._stalled_until, self._now() + seconds)

    def stalled_for(self) -> float:
        """Seconds until it gets its processor again; 0 where it has it."""
        return max(0.0, self._stalled_until - self._now())


def _cost(figure: tuple[float, float]) -> Cost:
    microseconds, nanoseconds_per_byte = figure
    return Cost(microseconds * 1e-6, nanoseconds_per_byte * 1e-9)
