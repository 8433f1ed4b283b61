"""Questions over all files of a server's history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.history_messages import KnownState, ServiceChange

from slotreeve_events.history_file import FoundState, HistoryFile, StoredEvent
from slotreeve_events.history_store import FAR_MS, HistoryStore

_CHANGE_BYTES = 60
_EVENT_BYTES = 20


@dataclass(frozen=True)
class StateAt:
    """What a server knows of a service at a time; see :class:`slotreeve_protocol.history_messages.ServiceAt`."""

    known: KnownState
    since_ms: int = 0
    leader_epoch: int = 0
    records: Sequence[Publisher] = ()


class HistoryFiles(HistoryStore):
    """The history of one server: written, and asked. Its methods block; call them in one thread at a time. A question
    raises sqlite3.Error where a file cannot be read now, and OverflowError for a number of more than 64 bits."""

    def state(self, name: str, at_ms: int) -> StateAt:
        """What a service was at ``at_ms``, as far as this server wrote it down."""
        for begins_ms, path in reversed(self._files()):
            found = self._ask(path, begins_ms, lambda file: file.state(name, at_ms), None)
            if found is not None:
                return self._unless_in_gap(name, at_ms, begins_ms, found)
        return self._before_next(name, at_ms) or StateAt(KnownState.NOTHING)

    def _unless_in_gap(self, name: str, at_ms: int, begins_ms: int, found: FoundState) -> StateAt:
        """The state, unless it is not known, or there was a gap since. Then it is that before the next change, or the
        present one."""
        gaps = self._gaps_after(begins_ms, found.at_ms, found.slot)
        since_ms = max((gap.until_ms for gap in gaps if gap.since_ms <= at_ms), default=0)
        if found.records is not None and not since_ms:
            return StateAt(KnownState.EXACTLY, found.at_ms, found.leader_epoch, found.records)
        later = self._before_next(name, at_ms) if since_ms < FAR_MS else None
        if later is None:
            until_ms = max([found.at_ms, *(gap.until_ms for gap in gaps)])
            known = KnownState.AS_NOW if until_ms < FAR_MS else KnownState.NOTHING
            return StateAt(known, until_ms, found.leader_epoch)
        if (
            later.known is KnownState.NOTHING
            or not 0 < since_ms <= at_ms
            or any(at_ms < gap.since_ms < later.since_ms for gap in gaps)
        ):
            return later
        return StateAt(KnownState.EXACTLY, since_ms, later.leader_epoch, later.records)

    def _before_next(self, name: str, at_ms: int) -> StateAt | None:
        """The state before the first change after ``at_ms``; NOTHING where it is not known."""
        for begins_ms, path in self._files():
            found = self._ask(path, begins_ms, lambda file: file.before_next(name, at_ms), None)
            if found is not None:
                known = KnownState.NOTHING if found.records is None else KnownState.BEFORE_A_CHANGE
                return StateAt(known, found.at_ms, found.leader_epoch, found.records or ())
        return None

    def changes(
        self, name: str, since_ms: int, until_ms: int, most: int, most_bytes: int = 1 << 62
    ) -> tuple[list[ServiceChange], bool]:
        """Changes of a service (empty: of all), the newest first, about ``most`` in about ``most_bytes``, and whether
        there are earlier ones. Changes of one moment are not parted: those that do not fit lack their content."""
        gathered = _Changes(most, most_bytes)
        for begins_ms, path in reversed(self._files()):
            is_done = self._ask(
                path, begins_ms, lambda file: gathered.take(file.changes(name, since_ms, until_ms)), False
            )
            if is_done:
                return gathered.page, True
        return gathered.page, False

    def events(
        self,
        since_ms: int,
        until_ms: int,
        kinds: Sequence[str],
        after: int,
        most: int,
        most_bytes: int = 1 << 62,
        *,
        newest_first: bool,
    ) -> tuple[list[StoredEvent], bool]:
        """Events, ``most`` at most in about ``most_bytes``, and whether there are more; see GetEvents."""
        gathered: list[StoredEvent] = []
        low, high = (0, after or 1 << 62) if newest_first else (after, 1 << 62)
        files, left = self._files(), most_bytes

        def gather(file: HistoryFile) -> bool:
            nonlocal left
            for event in file.events(since_ms, until_ms, kinds, low, high, newest_first=newest_first):
                left -= _EVENT_BYTES + len(event.body)
                if len(gathered) >= most or (gathered and left < 0):
                    return True
                gathered.append(event)
            return False

        for begins_ms, path in reversed(files) if newest_first else files:
            if self._ask(path, begins_ms, gather, False):
                return gathered, True
        return gathered, False


class _Changes:
    """A page of changes."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._left = most, most_bytes
        self.page: list[ServiceChange] = []

    def take(self, found: Iterator[ServiceChange]) -> bool:
        """Add changes until the page is full, and those of the same moment as the last one. Whether there are more."""
        for row in found:
            is_full = len(self.page) >= self._most or self._left < 0
            if self.page and is_full and row.at_ms != self.page[-1].at_ms:
                return True
            changes = []
            for change in row.changes:
                self._left -= _CHANGE_BYTES + len(change.register_id) + sum(map(len, change.data))
                changes.append(change if self._left >= 0 else msgspec.structs.replace(change, data=()))
            self.page.append(msgspec.structs.replace(row, changes=changes))
        return False
