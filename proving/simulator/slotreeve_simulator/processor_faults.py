"""Faults of processors: a process gets a small part of its processor, gets it in bursts, or gets none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.processor import SimulatedProcessor

PROCESSOR_FAULTS = frozenset({FaultKind.STARVE, FaultKind.STUTTER, FaultKind.STALL, FaultKind.STALL_CLIENTS})
STARVE_FACTOR = 100.0
LONGEST_STALL_SECONDS = 1.0
"""Of a process that gets its processor in bursts."""


def strike_processors(processors: Sequence[SimulatedProcessor], fault: Fault) -> Callable[[], None] | None:
    """Begin a fault of these processors. Returns the function that ends it; None if there is no processor.

    A stall ends with its time, however many there are at once; nothing ends it earlier.
    """
    if not processors:
        return None
    match fault.kind:
        case FaultKind.STARVE:
            return processors[0].starve(STARVE_FACTOR**fault.amount)
        case FaultKind.STUTTER:
            return _Stutter(processors[0], fault).end
    for processor in processors:
        processor.stall(fault.seconds)
    return lambda: None


class _Stutter:
    """Stalls a process again and again: a pause, then a burst of a quarter of it."""

    def __init__(self, processor: SimulatedProcessor, fault: Fault) -> None:
        self._processor, self._loop = processor, asyncio.get_running_loop()
        self._pause = LONGEST_STALL_SECONDS * fault.amount
        self._ends_at = self._loop.time() + fault.seconds
        self._loop.call_soon(self._stall)

    def _stall(self) -> None:
        if self._loop.time() < self._ends_at:
            self._processor.stall(self._pause)
            self._loop.call_later(self._pause * 1.25 + 0.01, self._stall)

    def end(self) -> None:
        """Stall no more."""
        self._ends_at = 0.0
