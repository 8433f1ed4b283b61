"""All files of a server's history: which are kept, and questions over all of them.

A damaged file, a full disk or a directory that cannot be used loses history, never more: what cannot be written is
counted, and what cannot be read is put aside under another name.
"""

from __future__ import annotations

import dataclasses
import fcntl
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from slotreeve.errors import StorageError
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.history_messages import KnownState, ServiceChange

from slotreeve_events.changed_services import Gap, ServiceRow
from slotreeve_events.history_file import SUFFIX, HistoryFile, StoredEvent
from slotreeve_events.schema import Event
from slotreeve_events.settings import HistorySettings

log = logging.getLogger("slotreeve.history")

PARTS = 8
"""A history has about so many files; the oldest one goes at a time."""
DAMAGED = ".damaged"
CLOCK_STEP_MS = 60_000
"""A clock that was set back by less is waited for: times in one file rise."""
T = TypeVar("T")


@dataclass(frozen=True)
class StateAt:
    """What a server knows of a service at a time; see :class:`slotreeve_protocol.history_messages.ServiceAt`."""

    known: KnownState
    since_ms: int = 0
    leader_epoch: int = 0
    records: Sequence[Publisher] = ()


class HistoryFiles:
    """The history of one server. Its methods block; call them in one thread at a time.

    Args:
        directory: is made if it is missing, and locked for the life of this object.
        now_ms: wall clock.

    Raises:
        StorageError: the directory cannot be made or written, or another process uses it.

    Attributes:
        lost: number of events and changes that could not be written.
    """

    def __init__(self, directory: Path, rules: HistorySettings, now_ms: int) -> None:
        self._directory, self._rules = directory, rules
        self.lost = 0
        self._last_ms = self._place = 0
        self._gaps: list[tuple[int, int]] = []
        # Gaps that no file has yet.
        self._lacks: list[tuple[int, int]] = []
        self._failure = ""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"history.directory: {directory} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StorageError(f"history.directory: {directory} is in use by another process") from None
        self._current: HistoryFile | None = None
        self._finished = sorted(self._on_disk())
        self._continue_last(now_ms)
        for begins_ms, path in self._files():
            self._gaps += self._ask(path, begins_ms, lambda file: file.gaps(), [])

    def _on_disk(self) -> Iterator[tuple[int, Path]]:
        for path in self._directory.glob(f"*{SUFFIX}"):
            begins = path.name.removesuffix(SUFFIX)
            if begins.isdigit():
                yield int(begins), path

    def _continue_last(self, now_ms: int) -> None:
        """Take up the newest file where the last process of this server left it."""
        while self._finished and self._current is None:
            begins_ms, path = self._finished.pop()
            try:
                last = HistoryFile(path, begins_ms, is_written=True)
                self._last_ms, self._place = last.last_ms, last.last_place
                self._current = last
            except sqlite3.Error as error:
                self._put_aside(path, error)
        if self._current is not None and self._last_ms > now_ms + CLOCK_STEP_MS:
            log.warning("the clock is %d s behind the history; it begins anew", (self._last_ms - now_ms) // 1000)
            self._finish()
            self._last_ms = 0

    def close(self) -> None:
        """Close the files and give up the lock."""
        self._finish()
        os.close(self._lock)

    @property
    def begins_ms(self) -> int:
        """Where the history begins; 0 where it has none."""
        if self._finished:
            return self._finished[0][0]
        return self._current.begins_ms if self._current is not None else 0

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, now_ms: int, rows: Sequence[ServiceRow], events: Sequence[Event], gap: Gap | None = None) -> bool:
        """Write down what happened. Returns whether the next rows must stand alone: they go to another file, or these
        were lost. ``gap``: when changes were not written."""
        at_ms = max(now_ms, self._last_ms + 1)
        encode = msgspec.json.encode
        stored = [StoredEvent(self._place + n, e.at_ms, e.kind, encode(e)) for n, e in enumerate(events, 1)]
        try:
            current = self._current or self._begin(
                self._last_ms + 1 if self._last_ms else _earliest(now_ms, rows, stored)
            )
            current.write(at_ms, self._last_ms, rows, stored)
            if gap is not None:
                self._lacks.append((gap.since_ms, gap.until_ms))
            if self._lacks:
                for since_ms, until_ms in self._lacks:
                    current.add_gap(since_ms, until_ms)
                self._gaps += self._lacks
                self._lacks = []
            self._last_ms, self._place = at_ms, self._place + len(stored)
            is_full = current.size >= self._rules.most_bytes // PARTS
            is_old = now_ms - current.begins_ms >= self._rules.keep_seconds * 1000 // PARTS
            if is_full or is_old:
                self._finish()
                self._remove_old(now_ms)
        except (sqlite3.Error, OSError) as error:
            self._failed(error, len(events) + sum(len(row.changes) for row in rows))
            self._lacks.append((self._last_ms, now_ms))
            return True
        if self._failure:
            log.warning("the history is written again; %d changes and events were lost", self.lost)
            self._failure = ""
        return is_full or is_old

    def _begin(self, begins_ms: int) -> HistoryFile:
        begins_ms = max(begins_ms, self._finished[-1][0] + 1 if self._finished else 0)
        path = self._directory / f"{begins_ms:013d}{SUFFIX}"
        self._current = HistoryFile(path, begins_ms, is_written=True)
        return self._current

    def _finish(self) -> None:
        if self._current is None:
            return
        finished, self._current = self._current, None
        self._finished.append((finished.begins_ms, finished.path))
        try:
            finished.close()
        except sqlite3.Error as error:
            log.warning("%s was not closed in order: %s", finished.path, error)

    def _failed(self, error: Exception, lost: int) -> None:
        """Say so once, and make room: the next file may be written."""
        self.lost += lost
        damaged = self._current if isinstance(error, sqlite3.DatabaseError) and _is_damage(error) else None
        if str(error) != self._failure:
            self._failure = str(error)
            log.error("the history cannot be written below %s, and the server goes on: %s", self._directory, error)
        if damaged is not None:
            self._finish()
            self._put_aside(damaged.path, error)
        elif len(self._finished) > 1 and "full" in str(error):
            self._remove(self._finished.pop(0)[1])

    def _remove_old(self, now_ms: int) -> None:
        keep_ms, kept = now_ms - int(self._rules.keep_seconds * 1000), self._rules.most_bytes * (PARTS - 1) // PARTS
        sizes = {path: _size_of(path) for _, path in self._finished}
        # A file ends where the next one begins.
        while self._finished and (
            sum(sizes.values()) > kept or (len(self._finished) > 1 and self._finished[1][0] < keep_ms)
        ):
            _, path = self._finished.pop(0)
            del sizes[path]
            self._remove(path)

    def _remove(self, path: Path) -> None:
        for suffix in ("", "-wal", "-shm"):
            try:
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s could not be removed: %s", path, error)

    def _put_aside(self, path: Path, error: Exception) -> None:
        log.error("a part of the history is damaged and was put aside as %s%s: %s", path.name, DAMAGED, error)
        self._finished = [entry for entry in self._finished if entry[1] != path]
        try:
            path.rename(path.with_name(path.name + DAMAGED))
        except OSError as failed:
            log.error("%s could not be renamed: %s", path, failed)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    # --- questions ---------------------------------------------------------------------------------------------------

    def _ask(self, path: Path, begins_ms: int, question: Callable[[HistoryFile], T], otherwise: T) -> T:
        """The answer of one file; ``otherwise`` where it is damaged."""
        if self._current is not None and path == self._current.path:
            return question(self._current)
        file = None
        try:
            file = HistoryFile(path, begins_ms)
            return question(file)
        except sqlite3.Error as error:
            if _is_damage(error):
                self._put_aside(path, error)
            else:
                log.warning("%s cannot be read: %s", path, error)
            return otherwise
        finally:
            if file is not None:
                file.close()

    def _files(self) -> list[tuple[int, Path]]:
        current = [] if self._current is None else [(self._current.begins_ms, self._current.path)]
        return [*self._finished, *current]

    def state(self, name: str, at_ms: int) -> StateAt:
        """What a service was at ``at_ms``, as far as this server wrote it down."""
        for begins_ms, path in reversed(self._files()):
            if begins_ms > at_ms:
                continue
            found = self._ask(path, begins_ms, lambda file: file.state(name, at_ms), None)
            if found is not None:
                return self._unless_in_gap(name, at_ms, StateAt(KnownState.EXACTLY, *found))
        return self._next_base(name, at_ms) or StateAt(KnownState.NOTHING)

    def _unless_in_gap(self, name: str, at_ms: int, found: StateAt) -> StateAt:
        """The state, unless there was a gap since. Then it is that before the next change, or the present one."""
        since_ms = max((until for since, until in self._gaps if since <= at_ms and until > found.since_ms), default=0)
        if not since_ms:
            return found
        later = self._next_base(name, at_ms)
        if later is None:
            return StateAt(KnownState.AS_NOW, since_ms, found.leader_epoch)
        if since_ms > at_ms:
            return later
        return dataclasses.replace(later, known=KnownState.EXACTLY, since_ms=since_ms)

    def _next_base(self, name: str, at_ms: int) -> StateAt | None:
        """The state before the first change after ``at_ms``."""
        for begins_ms, path in self._files():
            found = self._ask(path, begins_ms, lambda file: file.first_base(name, at_ms), None)
            if found is not None:
                return StateAt(KnownState.BEFORE_A_CHANGE, *found)
        return None

    def changes(self, name: str, since_ms: int, until_ms: int, most: int) -> tuple[list[ServiceChange], bool]:
        """Changes of a service (empty: of all), the newest first, about ``most``, and whether there are earlier ones.
        Changes of one moment are not parted."""
        gathered: list[ServiceChange] = []
        for begins_ms, path in reversed(self._files()):
            if begins_ms >= until_ms:
                continue
            is_done = self._ask(
                path,
                begins_ms,
                lambda file: _gather(file.changes(name, since_ms, until_ms), gathered, most),
                False,
            )
            if is_done:
                return gathered, True
        return gathered, False

    def events(
        self, since_ms: int, until_ms: int, kinds: Sequence[str], after: int, most: int, *, newest_first: bool
    ) -> tuple[list[StoredEvent], bool]:
        """Events, ``most`` at most, and whether there are more; see GetEvents."""
        gathered: list[StoredEvent] = []
        low, high = (0, after or 1 << 62) if newest_first else (after, 1 << 62)
        files = self._files()
        for begins_ms, path in reversed(files) if newest_first else files:

            def gather(file: HistoryFile) -> bool:
                for event in file.events(since_ms, until_ms, kinds, low, high, newest_first=newest_first):
                    if len(gathered) >= most:
                        return True
                    gathered.append(event)
                return False

            if self._ask(path, begins_ms, gather, False):
                return gathered, True
        return gathered, False


def _earliest(now_ms: int, rows: Sequence[ServiceRow], events: Sequence[StoredEvent]) -> int:
    times = [now_ms, *(event.at_ms for event in events), *(c.at_ms for row in rows for c in row.changes)]
    return min(times)


def _gather(found: Iterator[ServiceChange], gathered: list[ServiceChange], most: int) -> bool:
    """Add changes until there are ``most``, and those of the same moment as the last one. Whether there are more."""
    for change in found:
        if len(gathered) >= most and change.at_ms != gathered[-1].at_ms:
            return True
        gathered.append(change)
    return False


def _is_damage(error: Exception) -> bool:
    return isinstance(error, sqlite3.DatabaseError) and any(
        word in str(error) for word in ("malformed", "not a database", "no such table", "corrupt")
    )


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
