"""Work that goes in parts, so that no turn of the event loop is long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from slotreeve_servers.node.outbox import Outbox

Entry = TypeVar("Entry")
Work = Callable[[], Iterator[None]]
"""Does a part of the work until each ``yield``."""


class PacedWork:
    """Runs several works beside each other, a part of each in a turn."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._running: dict[Work, Iterator[None]] = {}
        self._again: set[Work] = set()

    def run(self, work: Work) -> None:
        """Do the first part now, and one more in each turn. Where this work is under way, it is done once more
        afterwards."""
        if work in self._running:
            self._again.add(work)
        else:
            self._running[work] = work()
            self._next_part(work)

    def _next_part(self, work: Work) -> None:
        is_over = True
        try:
            is_over = next(self._running[work], self) is self
        finally:
            if is_over:
                del self._running[work]
        if not is_over:
            self._outbox.at_turns_end(partial(self._next_part, work))
        elif work in self._again:
            self._again.discard(work)
            self.run(work)


def paced(entries: Sequence[Entry], at_once: int) -> Iterator[Entry | None]:
    """The entries, with None after every so many: there is time for a pause."""
    for number, entry in enumerate(entries):
        if number and number % at_once == 0:
            yield None
        yield entry
