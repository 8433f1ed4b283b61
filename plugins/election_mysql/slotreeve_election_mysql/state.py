"""The meta state as the rest of this process sees it: a copy of the table's newest rows."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve_machines.watched_state import WatchedState, Writer

from slotreeve_election_mysql.table import Change


class CopiedState(WatchedState):
    """Committed values and their watchers.

    On the leader the watchers are called for every change. A follower that reads two changes of one key at once calls
    them for the newer one only.

    Attributes:
        revision: of the newest change that is known.
        history: which history of the meta state is known, see :class:`slotreeve_election_mysql.table.Row`; None before
            the first look at the row.
    """

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self.revision = 0
        self.history: str | None = None

    def replace(self, history: str, changes: Iterable[Change]) -> None:
        """Take in the whole of another history, in the place of what is known."""
        self.history, self.revision = history, 0
        self.values.clear()
        self.apply(changes)

    def follows(self, change: Change) -> bool:
        """Whether this is the change right after those that are known, so that none between them is missing."""
        return change[0] == self.revision + 1

    def apply(self, changes: Iterable[Change]) -> None:
        """Take in committed changes and call the watchers, by revision; what is known already changes nothing."""
        for revision, key, held in changes:
            if revision > self.revision:
                self.revision = revision
                self.values[key] = held
                self.notify(key, held)
