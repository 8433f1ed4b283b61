"""The meta state as the rest of this process sees it: a copy of the table's newest rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotreeve.ports import Versioned
from slotreeve_machines.watched_state import WatchedState, Writer

from slotreeve_election_mysql.table import NOWHERE, Change, Position, StoredEntry


class CopiedState(WatchedState):
    """Committed values and their watchers.

    On the leader the watchers are called for every change. A follower that reads two changes of one key at once calls
    them for the newer one only.

    Attributes:
        newest: the newest change that is known.
        history: which history of the meta state is known, see :class:`slotreeve_election_mysql.table.Row`; None before
            the first look at the row.
    """

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self.newest = NOWHERE
        self.history: str | None = None
        self._revisions: dict[str, int] = {}

    def replace(self, changes: Iterable[Change]) -> None:
        """Take in the whole state, in the place of what is known, and call the watchers for what differs."""
        before = dict(self.values)
        self.newest = NOWHERE
        self.values.clear()
        self._revisions.clear()
        for change in sorted(changes, key=lambda change: change[0]):
            self._keep(change)
        for key in sorted(self._revisions, key=self._revisions.__getitem__):
            if self.values[key] != before.get(key):
                self.notify(key, self.values[key])
        for key in sorted(before.keys() - self.values.keys()):
            self.notify(key, Versioned(b"", 0, 0))

    def follows(self, change: Change) -> bool:
        """Whether this is the change right after those that are known, so that none between them is missing."""
        return change[0] == self.newest.revision + 1

    def apply(self, changes: Iterable[Change]) -> None:
        """Take in committed changes and call the watchers, by revision; what is known already changes nothing."""
        for change in changes:
            revision, key, held = change
            if revision > self._revisions.get(key, 0):
                self._keep(change)
                self.notify(key, held)

    def _keep(self, change: Change) -> None:
        revision, key, held = change
        self.values[key] = held
        self._revisions[key] = revision
        self.newest = max(self.newest, Position(revision, held.term))

    # --- compared with the database ----------------------------------------------------------------------------------

    def contradiction(self, newest: Position) -> str:
        """Why a database whose newest change is this one has lost changes that are known; empty if it need not have."""
        known = self.newest
        has = f"it has change {newest.revision} of the meta state"
        if newest.revision < known.revision:
            return f"{has}, this node has {known.revision}"
        if newest.term < known.term or (newest.revision == known.revision and newest != known):
            return f"{has} of term {newest.term}, this node has {known.revision} of term {known.term}"
        return ""

    def contradiction_in(self, index: Sequence[StoredEntry], since: int) -> str:
        """The same, by the values that changed in revision ``since`` or later."""
        found = {entry.key: entry for entry in index}
        keys = {revision: key for key, revision in self._revisions.items()}
        for entry in index:
            if (key := keys.get(entry.revision, entry.key)) != entry.key:
                return (
                    f"its change {entry.revision} of the meta state is one of {entry.key!r}, this node has one of "
                    f"{key!r}"
                )
        for key, revision in self._revisions.items():
            if revision < since:
                continue
            newer, held = found.get(key), self.values[key]
            if newer is None or newer.revision < revision:
                return f"it lacks change {revision} of the meta state (of {key!r}), which this node has"
            if newer.revision == revision and (newer.term, newer.version) != (held.term, held.version):
                return (
                    f"its change {revision} of the meta state (of {key!r}) is one of term {newer.term}, this node has "
                    f"one of term {held.term}"
                )
        return ""

    def first_missing(self, index: Iterable[StoredEntry]) -> int | None:
        """The first revision in the index that is not known; None if all are."""
        return next((each.revision for each in index if self._revisions.get(each.key) != each.revision), None)
