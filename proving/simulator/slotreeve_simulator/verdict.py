"""The verdict of a run: the first broken invariant, if any."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from slotreeve_simulator.trace import Trace, Weight


@dataclass(frozen=True)
class Violation:
    """A broken invariant.

    Attributes:
        invariant: ``I1`` to ``I23``, ``convergence``, ``latency``, ``order`` (nobody follows an order), ``health`` (a
            loop or server stopped because of an error), or ``symptom``: no invariant is broken, but the symptom of a
            recorded incident was seen.
        text: what was observed.
    """

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


class RunVerdict:
    """Keeps the first violation of a run and ignores later ones. Make it on the run's event loop.

    Attributes:
        violation: the first violation; None if there was none.
        settled: done once there is a violation, so that the run can stop.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.violation: Violation | None = None
        self.settled: asyncio.Future[Violation] = asyncio.get_running_loop().create_future()

    def violate(self, invariant: str, text: str) -> None:
        """Report that ``invariant`` does not hold."""
        if self.violation is None:
            self.violation = Violation(invariant, text)
            self._trace.note(Weight.FAULT, f"VIOLATION {self.violation}")
            self.settled.set_result(self.violation)
