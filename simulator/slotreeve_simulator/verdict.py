"""What a run found: the first broken invariant, if any."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from slotreeve_simulator.trace import Trace, Weight


@dataclass(frozen=True)
class Violation:
    """An invariant was seen broken.

    Attributes:
        invariant: which one (``I1`` to ``I13``), ``convergence``, or ``health``: a loop or server gave up.
        text: what was seen.
    """

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


class RunVerdict:
    """Open until the first violation; later ones say little.

    Attributes:
        violation: the first one.
        settled: done with it, so that a run can stop there. Make this object on the run's event loop.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.violation: Violation | None = None
        self.settled: asyncio.Future[Violation] = asyncio.get_running_loop().create_future()

    def violate(self, invariant: str, text: str) -> None:
        """``invariant`` does not hold."""
        if self.violation is None:
            self.violation = Violation(invariant, text)
            self._trace.note(Weight.FAULT, f"VIOLATION {self.violation}")
            self.settled.set_result(self.violation)
