"""The committed meta state as the rest of this process sees it: what the MetaState port promises."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from slotreeve.ports import Versioned

from slotreeve_election_fle.entries import Changes

log = logging.getLogger("slotreeve.election.fle")

Changed = Callable[[str, Versioned], None]


Writer = Callable[[str, bytes, int | None, int], Awaitable[int]]
"""Brings a write to the ensemble: key, value, expected version, term; as :meth:`slotreeve.ports.MetaState.write`."""


class ReplicatedState:
    """Committed values, and who watches them. Outlives the machine that commits them, so nothing is read twice."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._table: dict[str, Versioned] = {}
        self._watchers: list[Changed] = []

    def read(self, key: str) -> Versioned | None:
        """The committed value; see :class:`slotreeve.ports.MetaState`."""
        return self._table.get(key)

    def keys(self) -> Sequence[str]:
        """All keys that have a value, sorted."""
        return sorted(self._table)

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        """Store, and return the new version; raises as :meth:`slotreeve.ports.MetaState.write`."""
        return await self._writer(key, value, expected_version, term)

    def watch(self, changed: Changed) -> Callable[[], None]:
        """Call ``changed`` for every committed change from now on; returns how to stop it."""
        watcher: Changed = lambda key, held: changed(key, held)  # noqa: E731 - one callable may watch twice
        self._watchers.append(watcher)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop

    def load(self, table: Mapping[str, Versioned]) -> None:
        """Take in what the disk holds, without telling anybody."""
        self._take(table.items())

    def apply(self, changes: Changes) -> None:
        """Take in committed changes and tell the watchers, in order."""
        for key, held in self._take(changes):
            for watcher in list(self._watchers):
                try:
                    watcher(key, held)
                except Exception:
                    log.exception("a watcher of the meta state failed at %r", key)

    def _take(self, changes: Iterable[tuple[str, Versioned]]) -> Changes:
        """What is new: versions of a key only rise, so that what is known already may be told again."""
        new: Changes = []
        for key, held in changes:
            known = self._table.get(key)
            if known is None or held.version > known.version:
                self._table[key] = held
                new.append((key, held))
        return new
