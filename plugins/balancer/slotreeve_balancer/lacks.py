"""Servers by the number of slots that they lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush


class Lacks:
    """Servers by the number of slots that they lack, most first, then by name. A negative number is a surplus."""

    def __init__(self, lacks: Iterable[tuple[str, float]]) -> None:
        self._heap = [(-lack, name) for name, lack in lacks]
        heapify(self._heap)

    def take(self, fits: Callable[[str], bool]) -> str | None:
        """Remove and return the first server that fits; None if none does."""
        unfit: list[tuple[float, str]] = []
        taken = None
        while self._heap and taken is None:
            entry = heappop(self._heap)
            if fits(entry[1]):
                taken = entry[1]
            else:
                unfit.append(entry)
        for entry in unfit:
            heappush(self._heap, entry)
        return taken

    def put_back(self, name: str, lack: float) -> None:
        """Add the server again."""
        heappush(self._heap, (-lack, name))
