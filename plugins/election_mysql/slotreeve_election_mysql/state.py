"""The meta state as the rest of this process sees it: a copy of the table's newest rows."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from slotreeve.ports import Versioned

from slotreeve_election_mysql.table import Change

log = logging.getLogger("slotreeve.election.sql")

Changed = Callable[[str, Versioned], None]
Writer = Callable[[str, bytes, int | None, int], Awaitable[int]]
"""Brings a write to the database; as :meth:`slotreeve.ports.MetaState.write`."""


class CopiedState:
    """Committed values, and who watches them.

    On the leader every change is told. A follower that reads two changes of one key at once tells the newer one only.

    Attributes:
        revision: of the newest change that is known.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._values: dict[str, Versioned] = {}
        self._watchers: list[Changed] = []
        self.revision = 0

    def read(self, key: str) -> Versioned | None:
        """The committed value; see :class:`slotreeve.ports.MetaState`."""
        return self._values.get(key)

    def keys(self) -> Sequence[str]:
        """All keys that have a value, sorted."""
        return sorted(self._values)

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        """Store, and return the new version; raises as :meth:`slotreeve.ports.MetaState.write`."""
        return await self._writer(key, value, expected_version, term)

    def watch(self, changed: Changed) -> Callable[[], None]:
        """Call ``changed`` for every change from now on; returns how to stop it."""
        watcher: Changed = lambda key, held: changed(key, held)  # noqa: E731 - one callable may watch twice
        self._watchers.append(watcher)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop

    def apply(self, changes: Iterable[Change]) -> None:
        """Take in committed changes and tell the watchers, by revision; what is known already changes nothing."""
        for revision, key, held in changes:
            if revision <= self.revision:
                continue
            self.revision = revision
            self._values[key] = held
            for watcher in list(self._watchers):
                try:
                    watcher(key, held)
                except Exception:
                    log.exception("a watcher of the meta state failed at %r", key)
