"""Checks of the provided configuration: what was acknowledged stays, and everybody sees the same (I20)."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve_client.configuration import ConfigWatch
from slotreeve_protocol.meta_messages import ConfigEntry

from slotreeve_simulator.verdict import RunVerdict

CONFIG_KEYS = ("limits", "routes")
"""The keys that operators write, and that each client watches. No value is written twice."""


class ConfigsWatch:
    """What operators of a run wrote, and what clients saw of it."""

    def __init__(self, verdict: RunVerdict) -> None:
        self._verdict = verdict
        self._values: dict[tuple[str, int], tuple[bytes | None, str]] = {}  # and who saw it first
        self._acknowledged: dict[str, int] = {}

    def written(self, entry: ConfigEntry, who: str) -> None:
        """The meta leader has acknowledged a write of ``who``, which waits for one write before the next."""
        before = self._acknowledged.get(entry.key, 0)
        if entry.version <= before:
            what = f"{who} wrote version {entry.version} of {entry.key}, and {before} was acknowledged before"
            self._verdict.violate("I20", what)
        self._acknowledged[entry.key] = entry.version
        self._same(entry.key, entry.version, entry.value, who)

    def seen(self, client: str, watch: ConfigWatch) -> None:
        """A client got a state of a key."""
        if watch.version:
            self._same(watch.key, watch.version, watch.value, client)

    def _same(self, key: str, version: int, value: bytes | None, who: str) -> None:
        known, first = self._values.setdefault((key, version), (value, who))
        if known != value:
            what = f"{who} has {value!r} as version {version} of {key}; {first} has {known!r}"
            self._verdict.violate("I20", what)

    def difference(self, client: str, watches: Iterable[ConfigWatch]) -> str | None:
        """Why a client does not see what was acknowledged; None if it does. A write that nobody acknowledged may be
        stored too."""
        for watch in watches:
            acknowledged = self._acknowledged.get(watch.key, 0)
            newest = max((version for key, version in self._values if key == watch.key), default=0)
            if watch.version != max(acknowledged, newest):
                return (
                    f"{client} sees version {watch.version} of {watch.key}; acknowledged is {acknowledged}, and "
                    f"somebody has seen {newest}"
                )
        return None

    def counted_anew(self) -> None:
        """The meta state was lost, and with it what was written."""
        self._values.clear()
        self._acknowledged.clear()
