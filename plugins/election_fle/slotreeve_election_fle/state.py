"""The committed meta state as the rest of this process sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotreeve.ports import Versioned
from slotreeve_machines.watched_state import WatchedState

from slotreeve_election_fle.entries import Changes


class ReplicatedState(WatchedState):
    """Committed values, and who watches them. Outlives the machine that commits them, so nothing is read twice."""

    def load(self, table: Mapping[str, Versioned]) -> None:
        """Take in what the disk holds, without telling anybody."""
        self._take(table.items())

    def apply(self, changes: Changes) -> None:
        """Take in committed changes and tell the watchers, in order."""
        for key, held in self._take(changes):
            self.tell(key, held)

    def _take(self, changes: Iterable[tuple[str, Versioned]]) -> Changes:
        """What is new: versions of a key only rise, so that what is known already may be told again."""
        new: Changes = []
        for key, held in changes:
            known = self.values.get(key)
            if known is None or held.version > known.version:
                self.values[key] = held
                new.append((key, held))
        return new
