"""The committed meta state as the rest of this process sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotreeve.ports import Versioned
from slotreeve_machines.watched_state import WatchedState

from slotreeve_election_fle.entries import Changes


class ReplicatedState(WatchedState):
    """Committed values and their watchers. It outlives the state machine, so that watchers see each change once."""

    def load(self, table: Mapping[str, Versioned]) -> None:
        """Take in what the disk holds, without a call to the watchers."""
        self._take(table.items())

    def apply(self, changes: Changes) -> None:
        """Take in committed changes and call the watchers, in order."""
        for key, held in self._take(changes):
            self.notify(key, held)

    def _take(self, changes: Iterable[tuple[str, Versioned]]) -> Changes:
        """The changes that are new. Versions of a key only rise, so a change that is known already is left out."""
        new: Changes = []
        for key, held in changes:
            known = self.values.get(key)
            if known is None or held.version > known.version:
                self.values[key] = held
                new.append((key, held))
        return new
