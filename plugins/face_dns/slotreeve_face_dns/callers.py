"""Whose TCP connections stay where there are too many: nobody is shut out by those of others that say nothing
(RFC 7766, section 6.2.3). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

Caller = TypeVar("Caller", bound=Hashable)


class Callers(Generic[Caller]):
    """The open connections of a listener.

    Args:
        most: so many at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._sources: dict[Caller, str] = {}
        self._of_source: Counter[str] = Counter()
        self._idle: dict[Caller, None] = {}  # those that have no query under way, the longest idle first

    def __len__(self) -> int:
        """Number of connections."""
        return len(self._sources)

    def came(self, caller: Caller, source: str) -> Caller | None:
        """Somebody has connected from an address. Returns who must go: nobody, another one, or ``caller`` itself.

        Where there are too many, that is the longest idle one of the address with most connections among those with an
        idle one; it is the new one where its own address has more.
        """
        gone: Caller | None = None
        if len(self._sources) >= self._most:
            gone = max(self._idle, key=lambda each: self._of_source[self._sources[each]], default=None)
            if gone is None or self._of_source[source] > self._of_source[self._sources[gone]]:
                return caller
            self.left(gone)
        self._sources[caller] = source
        self._of_source[source] += 1
        self._idle[caller] = None
        return gone

    def asks(self, caller: Caller) -> None:
        """A query has come: it is not idle."""
        self._idle.pop(caller, None)

    def waits(self, caller: Caller) -> None:
        """Its query was answered: it is idle from now on."""
        if caller in self._sources:
            self._idle[caller] = None

    def left(self, caller: Caller) -> None:
        """The connection has ended, or is about to. Harmless the second time."""
        source = self._sources.pop(caller, None)
        self._idle.pop(caller, None)
        if source is not None:
            self._of_source[source] -= 1
            if not self._of_source[source]:
                del self._of_source[source]
