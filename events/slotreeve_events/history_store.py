"""The files of a server's history: which there are, what is written to them, and which are kept.

A damaged file, a full disk or a directory that cannot be used loses history, never more. What cannot be written is
counted, what cannot be read is left out, and the time of both is a gap.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import re
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from slotreeve.errors import StorageError

from slotreeve_events.changed_services import Gap, Lapse, ServiceRow
from slotreeve_events.history_file import SUFFIX, HistoryFile, Missed, StoredEvent
from slotreeve_events.schema import Event, encoded
from slotreeve_events.settings import HistorySettings

log = logging.getLogger("slotreeve.history")

PARTS = 8
"""A history has about so many files; the oldest one goes at a time."""
DAMAGED = ".damaged"
CLOCK_STEP_MS = 60_000
"""A clock that was set back by less is waited for: times in one file rise."""
PRIVATE = 0o700
"""Mode of a history's directory: registrations are in it with their payloads."""
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
UNREADABLE = "disk I/O error"
"""So the disk says, and may say of a file that is whole: it is left out, and stays."""
PLACES_PER_MS = 1000
"""Fewer events happen in a millisecond."""
LONGEST_NAME = 100
FAR_MS = 1 << 62
_BESIDE = ("-wal", "-shm")
_NAME = re.compile(rf"([0-9]{{1,18}}){re.escape(SUFFIX)}")
T = TypeVar("T")


def directory_of(directory: Path, cluster: str, server: str) -> Path:
    """Where a server has its history below ``directory``: a place for each, whatever the names are."""
    return directory / _file_name(cluster) / _file_name(server)


def _file_name(name: str) -> str:
    quoted = urllib.parse.quote(name, safe=":@")
    if quoted.startswith("."):
        quoted = f"%2E{quoted[1:]}"
    if len(quoted) <= LONGEST_NAME:
        return quoted
    return f"{quoted[:LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()}"


class StoredGap(NamedTuple):
    """Changes of services, of all or in these slots, between these times were not written, or are lost. It concerns
    what was written before: up to the file that begins at ``file_ms``."""

    file_ms: int
    since_ms: int
    until_ms: int
    slots: frozenset[int] | None = None


class HistoryStore:
    """The files of one server. Its methods block; call them in one thread at a time.

    Args:
        directory: is made if it is missing, and locked for the life of this object.
        now_ms: wall clock.

    Raises:
        StorageError: the directory cannot be made or written, or another process uses it.

    Attributes:
        lost: number of events and changes that could not be written.
        lapsing: slots that this server does not hold completely any more, each with the time since when.
    """

    def __init__(self, directory: Path, rules: HistorySettings, now_ms: int) -> None:
        self._directory, self._rules = directory, rules
        self.lost = 0
        self.lapsing: Mapping[int, int] = {}
        self._last_ms = 0
        self._gaps: list[StoredGap] = []
        # From when to when nothing was written, where no file tells it yet.
        self._lack: tuple[int, int] | None = None
        self._failure = ""
        self._is_broken = False
        self._unwritten: Path | None = None
        try:
            directory.mkdir(PRIVATE, parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (OSError, ValueError) as error:  # ValueError: no file can have such a name
            why = error.strerror if isinstance(error, OSError) else error
            raise StorageError(f"history.directory: {directory} cannot be written: {why}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StorageError(f"history.directory: {directory} is in use by another process") from None
        self._current: HistoryFile | None = None
        self._finished = sorted(self._on_disk())
        self._newest_ms = self._finished[-1][0] if self._finished else 0
        # Places rise also where files are lost: those of a process begin at the time of its start.
        self._place = now_ms * PLACES_PER_MS
        for begins_ms, path in self._files():
            self._look_at(begins_ms, path)
        self._continue_last(now_ms)
        self._remove_old(now_ms)

    def _look_at(self, begins_ms: int, path: Path) -> None:
        try:
            file = HistoryFile(path, begins_ms)
            try:
                self._last_ms, self._place = max(self._last_ms, file.last_ms), max(self._place, file.last_place)
                self._gaps += (StoredGap(begins_ms, *gap) for gap in file.gaps())
            finally:
                file.close()
        except Exception as error:  # noqa: BLE001 - a damaged file raises anything
            self._leave_out(begins_ms, path, error)

    def _on_disk(self) -> Iterator[tuple[int, Path]]:
        for path in self._directory.glob(f"*{SUFFIX}"):
            if name := _NAME.fullmatch(path.name):
                yield int(name[1]), path

    def _continue_last(self, now_ms: int) -> None:
        """Take up the newest file where the last process of this server left it. Nobody wrote since then."""
        if not self._finished:
            return
        begins_ms, path = self._finished[-1]
        self._lacks(self._last_ms, now_ms)
        try:
            self._current = HistoryFile(path, begins_ms, self._part_bytes)
            self._finished.pop()
            if self._last_ms > now_ms + CLOCK_STEP_MS:
                self.write(now_ms, (), ())
        except Exception as error:  # noqa: BLE001 - as above
            self._cannot_write(error)

    @property
    def _part_bytes(self) -> int:
        return self._rules.most_bytes // PARTS

    def close(self) -> None:
        """Close the files and give up the lock."""
        self._finish()
        os.close(self._lock)

    @property
    def begins_ms(self) -> int:
        """Where the history begins; 0 where it has none."""
        files = self._files()
        return files[0][0] if files else 0

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(
        self,
        now_ms: int,
        rows: Sequence[ServiceRow],
        events: Sequence[Event],
        gap: Gap | None = None,
        lapses: Sequence[Lapse] = (),
    ) -> bool:
        """Write down what happened. Returns whether the next rows must stand alone: they go to another file, or these
        were lost. ``gap``: when changes were not written."""
        at_ms, is_set_back = max(now_ms, self._last_ms + 1), self._last_ms > now_ms + CLOCK_STEP_MS
        changes = sum(len(row.changes) for row in rows)
        if gap is not None:
            self._lacks(gap.since_ms, gap.until_ms)
        if is_set_back:
            log.warning("the clock is %d s behind the history; it begins anew", (self._last_ms - now_ms) // 1000)
            self._lacks(now_ms, at_ms)
        if is_broken := self._is_broken:
            self._lacks(now_ms, now_ms)
            self.lost, rows, changes = self.lost + changes, (), 0
        place, self._place = self._place, self._place + len(events)  # given once, whatever becomes of the event
        try:
            stored = [StoredEvent(place + n, e.at_ms, e.kind, encoded(e)) for n, e in enumerate(events, 1)]
            current = self._writable(now_ms, rows, stored)
            gaps: list[Missed] = [] if self._lack is None else [(*self._lack, None)]
            gaps += lapses
            current.write(at_ms, rows, stored, gaps)
        except Exception as error:  # noqa: BLE001 - whatever it is costs history, and nothing else
            self.lost += len(events) + changes
            self._lacks(min(self._last_ms, _earliest(now_ms, rows, ())), now_ms)
            for lapse in lapses:
                self._lacks(lapse.since_ms, lapse.until_ms)
            self._cannot_write(error)
            self._is_broken = False
            return True
        self._gaps += (StoredGap(current.begins_ms, *each) for each in gaps)
        self._lack = self._unwritten = None
        self._last_ms, self._is_broken = 0 if is_set_back else at_ms, False
        if self._failure:
            log.warning("the history is written again; %d changes and events were lost", self.lost)
            self._failure = ""
        is_full = max(_sizes_of(current.path)) >= self._part_bytes
        is_old = now_ms - current.begins_ms >= self._rules.keep_seconds * 1000 / PARTS
        if is_full or is_old or is_set_back:
            self._finish()
            self._remove_old(now_ms)
            return True
        return is_broken

    def _writable(self, now_ms: int, rows: Sequence[ServiceRow], events: Sequence[StoredEvent]) -> HistoryFile:
        if self._current is not None:
            if not self._current.path.exists():
                raise FileNotFoundError(f"{self._current.path} was removed")
            return self._current
        begins_ms = self._last_ms + 1 if self._last_ms else _earliest(now_ms, rows, events)
        begins_ms = max(begins_ms, self._newest_ms + 1)
        path = self._directory / f"{begins_ms:013d}{SUFFIX}"
        try:
            self._directory.mkdir(PRIVATE, parents=True, exist_ok=True)
            self._current = HistoryFile(path, begins_ms, self._part_bytes)
        except (sqlite3.Error, OSError):
            self._remove(path)
            raise
        self._unwritten, self._newest_ms = path, begins_ms
        return self._current

    def _lacks(self, one_ms: int, other_ms: int) -> None:
        """Between these times changes of services were not written, or are lost."""
        known = self._lack or (one_ms, other_ms)
        self._lack = min(one_ms, other_ms, *known), max(one_ms, other_ms, *known)

    def _finish(self) -> None:
        if self._current is None:
            return
        finished, self._current = self._current, None
        self._finished.append((finished.begins_ms, finished.path))
        try:
            finished.close()
        except sqlite3.Error as error:
            log.warning("%s was not closed in order: %s", finished.path, error)

    def _cannot_write(self, error: Exception) -> None:
        """Say so once, and make room: the next file may be written."""
        if str(error) != self._failure:
            self._failure = str(error)
            log.error("the history cannot be written below %s, and the server goes on: %s", self._directory, error)
        current = self._current
        if _is_full(error):
            if len(self._finished) > 1:
                self._remove(self._finished.pop(0)[1])
        elif current is not None and (_is_damage(error) or not current.path.exists()):
            self._leave_out(current.begins_ms, current.path, error)
        elif current is not None and isinstance(error, sqlite3.Error | OSError) and _code(error) not in LOCKED:
            self._finish()
            if self._unwritten is not None:
                self._finished.pop()
                self._remove(self._unwritten)

    def _remove_old(self, now_ms: int) -> None:
        """Remove what is too much, and of what is too old one file: the time may be that of a clock that was set wrong
        for a moment, and each file that is finished makes room for one."""
        keep_ms, kept = now_ms - int(self._rules.keep_seconds * 1000), self._rules.most_bytes * (PARTS - 1) // PARTS
        sizes = {path: sum(_sizes_of(path)) for _, path in self._finished}
        # A file ends where the next one begins.
        is_old = len(self._finished) > 1 and self._finished[1][0] < keep_ms
        while self._finished and (is_old or sum(sizes.values()) > kept):
            _, path = self._finished.pop(0)
            del sizes[path]
            self._remove(path)
            is_old = False
        begins_ms = self.begins_ms
        self._gaps = [gap for gap in self._gaps if gap.file_ms >= begins_ms]

    def _remove(self, path: Path, suffixes: Sequence[str] = ("", *_BESIDE)) -> None:
        for suffix in suffixes:
            try:
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s could not be removed: %s", path, error)

    def _leave_out(self, begins_ms: int, path: Path, error: Exception) -> None:
        """A file is lost for questions. One that is damaged is put aside, in the place of the one before."""
        if self._current is not None and self._current.path == path:
            self._finish()
            self._is_broken = True
        self._finished = [entry for entry in self._finished if entry[1] != path]
        self._lacks(begins_ms, next((begins for begins, _ in self._files() if begins > begins_ms), self._last_ms))
        if not _is_damage(error):
            log.error("%s cannot be read, and is left out of the history: %s", path, error)
            return
        log.error("a part of the history is damaged and was put aside as %s%s: %s", path.name, DAMAGED, error)
        for before in self._directory.glob(f"*{SUFFIX}{DAMAGED}"):
            self._remove(before, [""])
        try:
            path.rename(path.with_name(path.name + DAMAGED))
        except OSError as failed:
            log.error("%s could not be renamed: %s", path, failed)
        self._remove(path, _BESIDE)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _ask(self, path: Path, begins_ms: int, question: Callable[[HistoryFile], T], otherwise: T) -> T:
        """The answer of one file; ``otherwise`` where it is damaged, or was removed.

        Raises:
            sqlite3.Error: it cannot be read now.
        """
        opened = None
        try:
            if self._current is not None and path == self._current.path:
                return question(self._current)
            opened = HistoryFile(path, begins_ms)
            return question(opened)
        except Exception as error:
            if not _is_damage(error) and UNREADABLE not in str(error) and path.exists():
                raise
            self._leave_out(begins_ms, path, error)
            return otherwise
        finally:
            if opened is not None:
                opened.close()

    def _files(self) -> list[tuple[int, Path]]:
        current = [] if self._current is None else [(self._current.begins_ms, self._current.path)]
        return [*self._finished, *current]

    def _gaps_after(self, begins_ms: int, since_ms: int, slot: int) -> list[StoredGap]:
        """The gaps of a slot that end after ``since_ms``, and concern what stands in the file that begins at
        ``begins_ms``. One that has not ended does so at ``FAR_MS``."""
        gaps = [] if self._lack is None else [StoredGap(begins_ms, *self._lack)]
        if slot in self.lapsing:
            gaps.append(StoredGap(begins_ms, self.lapsing[slot], FAR_MS))
        gaps += self._gaps
        return [
            gap
            for gap in gaps
            if gap.file_ms >= begins_ms and gap.until_ms > since_ms and (gap.slots is None or slot in gap.slots)
        ]


def _earliest(now_ms: int, rows: Sequence[ServiceRow], events: Sequence[StoredEvent]) -> int:
    return min([now_ms, *(event.at_ms for event in events), *(c.at_ms for row in rows for c in row.changes)])


def _code(error: Exception) -> int:
    """What went wrong, as a number of SQLite's; 0: it was nothing of the database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF if isinstance(error, sqlite3.Error) else 0


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return _code(error) == sqlite3.SQLITE_FULL


def _is_damage(error: Exception) -> bool:
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return True  # what stands in the file is no such text or number
    return isinstance(error, sqlite3.DatabaseError) and any(
        word in str(error) for word in ("malformed", "not a database", "no such table", "no such column", "corrupt")
    )


def _sizes_of(path: Path) -> list[int]:
    """Bytes on the disk, of the file and of those that the database has beside it."""
    sizes = [0]
    for suffix in ("", *_BESIDE):
        with contextlib.suppress(OSError):
            sizes.append(path.with_name(path.name + suffix).stat().st_size)
    return sizes
