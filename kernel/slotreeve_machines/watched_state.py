"""The committed meta state as one process sees it: what most elections need to fill the MetaState port."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from slotreeve.ports import Versioned

log = logging.getLogger("slotreeve.election")

Changed = Callable[[str, Versioned], None]
Writer = Callable[[str, bytes, int | None, int], Awaitable[int]]
"""Brings a write to where it is committed: key, value, expected version, term; as
:meth:`slotreeve.ports.MetaState.write`."""


class WatchedState:
    """Committed values by key, and their watchers. An election derives its own class from this and updates the values.

    Attributes:
        values: what is known to be committed.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.values: dict[str, Versioned] = {}
        self._watchers: list[Changed] = []

    def read(self, key: str) -> Versioned | None:
        """The committed value; see :class:`slotreeve.ports.MetaState`."""
        return self.values.get(key)

    def keys(self) -> Sequence[str]:
        """All keys that have a value, sorted."""
        return sorted(self.values)

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

    def notify(self, key: str, held: Versioned) -> None:
        """Call the watchers for a change; one that raises is logged, and the others are called all the same."""
        for watcher in list(self._watchers):
            try:
                watcher(key, held)
            except Exception:
                log.exception("a watcher of the meta state failed at %r", key)
