"""The trace of a run: its events as lines, and a hash by which two runs are compared."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from hashlib import blake2b


class Weight(IntEnum):
    """The importance of a line for people."""

    DETAIL = 0
    """One push or call, of which there are thousands."""
    STEP = 1
    """A new view or leader."""
    FAULT = 2
    """A fault, or the result of one."""


class Trace:
    """All events of one run in order. ``now`` returns the virtual seconds since its start.

    Attributes:
        events: number of lines.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._hasher = blake2b(digest_size=16)
        self._lines: list[tuple[Weight, str]] = []
        self.events = 0

    def note(self, weight: Weight, text: str) -> None:
        """Add a line."""
        line = f"{self._now():12.6f}  {text}"
        self._hasher.update(line.encode())
        self._hasher.update(b"\n")
        self._lines.append((weight, line))
        self.events += 1

    @property
    def hash(self) -> str:
        """32 hexadecimal digits, equal only for equal runs."""
        return self._hasher.hexdigest()

    def lines(self, last_details: int = 0) -> list[str]:
        """The important lines, and the last details before the end."""
        first = max(0, len(self._lines) - last_details)
        return [line for index, (weight, line) in enumerate(self._lines) if weight > Weight.DETAIL or index >= first]
