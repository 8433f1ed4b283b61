"""Services that lost instances, as far as this gateway has seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MOST_LOSSES = 20
KEPT_MS = 3_600_000
"""A loss is shown for so long."""


class InstanceLoss(NamedTuple):
    """A service has fewer instances than before. ``before_ms``, ``at_ms``: when the two numbers were read."""

    data_info_id: str
    before: int
    now: int
    before_ms: int
    at_ms: int


class ServiceLosses:
    """Compares the numbers of instances whenever they are read. A service that has all its instances back is taken out.

    Attributes:
        found: the losses, the newest last.
    """

    def __init__(self) -> None:
        self._index = 0
        self._counts: Mapping[str, int] = {}
        self._read_ms = 0
        self.found: dict[str, InstanceLoss] = {}

    def note(self, index: int, counts: Mapping[str, int], at_ms: int) -> None:
        """The numbers of instances by service, as they are at ``index`` of the directory."""
        if index != self._index:
            if self._index:
                self._compare(counts, at_ms)
            self._index, self._counts = index, counts
        self._read_ms = at_ms
        self.found = {name: loss for name, loss in self.found.items() if loss.at_ms >= at_ms - KEPT_MS}

    def _compare(self, counts: Mapping[str, int], at_ms: int) -> None:
        for name, loss in list(self.found.items()):
            if counts.get(name, 0) >= loss.before:
                del self.found[name]
        for name, before in self._counts.items():
            now = counts.get(name, 0)
            if now < before:
                known = self.found.pop(name, None)
                first = (before, self._read_ms) if known is None else (known.before, known.before_ms)
                self.found[name] = InstanceLoss(name, first[0], now, first[1], at_ms)
        for name in list(self.found)[:-MOST_LOSSES]:
            del self.found[name]
