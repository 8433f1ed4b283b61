"""What happened in a run, line by line, and the hash by which two runs are the same."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from hashlib import blake2b


class Weight(IntEnum):
    """How much a line tells a person."""

    DETAIL = 0
    """One push, one call: there are thousands."""
    STEP = 1
    """A view, a leader."""
    FAULT = 2
    """What was done to the cluster, and what came of it."""


class Trace:
    """Every event of one run in order. ``now`` tells the virtual seconds since the run began.

    Attributes:
        events: how many lines there were.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._hasher = blake2b(digest_size=16)
        self._lines: list[tuple[Weight, str]] = []
        self.events = 0

    def note(self, weight: Weight, text: str) -> None:
        """Something happened."""
        line = f"{self._now():12.6f}  {text}"
        self._hasher.update(line.encode())
        self._hasher.update(b"\n")
        self._lines.append((weight, line))
        self.events += 1

    @property
    def hash(self) -> str:
        """32 hexadecimal digits; equal for equal runs only."""
        return self._hasher.hexdigest()

    def lines(self, last_details: int = 0) -> list[str]:
        """The lines that tell something, and the last details before the end."""
        first = max(0, len(self._lines) - last_details)
        return [line for index, (weight, line) in enumerate(self._lines) if weight > Weight.DETAIL or index >= first]
