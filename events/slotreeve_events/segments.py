"""The files of an event log: one directory for all servers of a machine, a series of segments for each process.

A segment is called ``*.jsonl.open`` while its process writes it, which holds a lock on it, and ``*.jsonl`` once it is
finished. Readers take finished segments only.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
from pathlib import Path

from slotreeve.errors import StorageError

FINISHED, OPEN = ".jsonl", ".jsonl.open"
HIDDEN = ("_", ".")
"""Spark passes over files whose names begin so."""


class Segments:
    """The segments that one process writes.

    At its start it finishes the segments that an earlier process of the same server left open.

    Args:
        directory: is made if it is missing.
        process_id: ``name@unique``; the segments are named after it.
        segment_bytes: a segment of this size is finished.

    Raises:
        StorageError: the directory cannot be made or written.
    """

    def __init__(self, directory: Path, process_id: str, segment_bytes: int) -> None:
        self._directory, self._segment_bytes = directory, segment_bytes
        # Hadoop's paths must not hold a colon.
        name = process_id.replace("/", "_").replace(":", "_")
        self._name = f"-{name}" if name.startswith(HIDDEN) else name
        self._number = self._written = 0
        self._descriptor: int | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for left in directory.glob(f"{glob.escape(self._name.rpartition('@')[0])}@*{OPEN}"):
                if not _is_written(left):
                    left.rename(left.with_name(left.name.removesuffix(OPEN) + FINISHED))
        except (OSError, ValueError) as error:  # ValueError: no file can have such a name
            why = error.strerror if isinstance(error, OSError) else error
            raise StorageError(f"events.path: {directory} cannot be written: {why}") from None

    def append(self, content: bytes) -> None:
        """Add whole lines to the present segment; finish it if it is full. Does not sync.

        Raises:
            OSError: nothing was added. A part that the disk had taken is removed, or ends the segment: the next line
                does not continue it.
        """
        if self._descriptor is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path(OPEN), flags, 0o644)
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        view = memoryview(content)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            self._remove_torn(self._descriptor)
            raise
        self._written += len(content)
        if self._written >= self._segment_bytes:
            self.finish()

    def _remove_torn(self, descriptor: int) -> None:
        try:
            os.ftruncate(descriptor, self._written)
        except OSError:
            self.finish()

    def finish(self) -> None:
        """Close the present segment and give it its final name. Does nothing if none is open. Raises OSError."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        path, finished = self._path(OPEN), self._path(FINISHED)
        self._number += 1
        self._written = 0
        try:
            os.close(descriptor)
        finally:
            path.rename(finished)

    def _path(self, suffix: str) -> Path:
        return self._directory / f"{self._name}-{self._number:06}{suffix}"


def _is_written(path: Path) -> bool:
    """Whether a living process writes the segment. Raises OSError: it cannot be opened."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return False
    return False
