"""The symptom of a recorded incident, looked for in what subscribers see."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable

from slotreeve_simulator.recorded import Symptom
from slotreeve_simulator.verdict import RunVerdict

SYMPTOM = "symptom"
"""Stands for the broken invariant in the verdict of a run that showed the symptom."""


class SymptomWatch:
    """Counts the instances that each subscriber of the service sees disappear, from :meth:`begin` on. ``now`` returns
    the virtual seconds of the run."""

    def __init__(self, symptom: Symptom | None, verdict: RunVerdict, now: Callable[[], float]) -> None:
        self._symptom, self._verdict, self._now = symptom, verdict, now
        self._began: float | None = None
        self._losses: defaultdict[str, deque[float]] = defaultdict(deque)

    def begin(self) -> None:
        """The recording begins now."""
        if self._began is None:
            self._began = self._now()

    def lost(self, client: str, service: str) -> None:
        """A subscriber has seen one instance disappear that was not unpublished."""
        symptom = self._symptom
        if symptom is None or self._began is None or service != symptom.service:
            return
        now = self._now() - self._began
        if not symptom.from_seconds <= now <= symptom.until_seconds:
            return
        losses = self._losses[client]
        losses.append(now)
        while losses[0] < now - symptom.within_seconds:
            losses.popleft()
        if len(losses) >= symptom.lost:
            instances = "1 instance" if len(losses) == 1 else f"{len(losses)} instances"
            self._verdict.violate(
                SYMPTOM,
                f"{client} saw {service} lose {instances} between {losses[0]:.3f} s and {now:.3f} s of the recording",
            )
