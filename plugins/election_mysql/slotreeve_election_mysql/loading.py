"""What of the meta state is still to be read, page by page. Pure.

Pages follow each other by revision, and the last one has no end. A value that changes meanwhile gets a later revision,
so it is in a later page: together the pages are the state as it was when the last one was read. A page that has come is
kept, also where the next one fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slotreeve_election_mysql.table import Change, StoredEntry

FIRST_PAGE_BYTES = 512 * 1024
SMALLEST_PAGE_BYTES = 16 * 1024
LARGEST_PAGE_BYTES = 4 * 1024 * 1024
"""Size of a page after many that came in time. A value that is larger has a page of its own."""


@dataclass(frozen=True)
class StatePage:
    """Changes after one revision, and not after another one; None: all that follow."""

    after: int
    up_to: int | None


class Loading:
    """One reading of the state, from a revision on.

    Attributes:
        page_bytes: size of the next page: doubled by each page that comes, halved by each that does not.
    """

    def __init__(self) -> None:
        self.page_bytes, self._longest = FIRST_PAGE_BYTES, LARGEST_PAGE_BYTES
        self.forget()

    def forget(self) -> None:
        """Nothing was read: what was kept belongs to another history."""
        self._begins_at: int | None = None
        self._after = 0
        self._rest: Sequence[StoredEntry] = ()
        self._kept: list[Change] = []

    def begin(self, after: int, index: Iterable[StoredEntry]) -> None:
        """Read what follows this revision. If that is what was begun before, the pages that came are kept."""
        if self._begins_at != after:
            self.forget()
            self._begins_at = self._after = after
        self._rest = [entry for entry in index if entry.revision > self._after]

    @property
    def is_under_way(self) -> bool:
        """Whether pages are missing."""
        return bool(self._rest)

    def page(self) -> StatePage:
        """The next page: as many values as fit into its size, and at least one."""
        size = 0
        for before, entry in zip([None, *self._rest], self._rest, strict=False):
            size += entry.size
            if before is not None and size > self.page_bytes:
                return StatePage(self._after, before.revision)
        return StatePage(self._after, None)

    def came(self, page: StatePage, changes: Iterable[Change]) -> None:
        """Keep a page."""
        self._kept += changes
        self.page_bytes = min(2 * self.page_bytes, self._longest)
        if page.up_to is None:
            self._rest = ()
        else:
            self._after = page.up_to
            self._rest = [entry for entry in self._rest if entry.revision > page.up_to]

    def failed(self) -> None:
        """A page did not come in time: no later one is as large."""
        self.page_bytes = self._longest = max(self.page_bytes // 2, SMALLEST_PAGE_BYTES)

    def take(self) -> Sequence[Change]:
        """All that was read, by revision."""
        kept = self._kept
        self.forget()
        return kept
