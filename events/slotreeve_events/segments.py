"""The files of an event log: one directory for all servers of a machine, a series of segments for each process.

A segment is called ``*.jsonl.open`` while its process writes it and ``*.jsonl`` once it is finished. Readers take
finished segments only.
"""

from __future__ import annotations

import os
from pathlib import Path

from slotreeve.errors import StorageError

FINISHED, OPEN = ".jsonl", ".jsonl.open"


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
        self._name = process_id.replace("/", "_").replace(":", "_")
        self._number = self._written = 0
        self._descriptor: int | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for stale in directory.glob(f"{self._name.rpartition('@')[0]}@*{OPEN}"):
                stale.rename(stale.with_name(stale.name.removesuffix(OPEN) + FINISHED))
        except OSError as error:
            raise StorageError(f"events.path: {directory} cannot be written: {error.strerror}") from None

    def append(self, content: bytes) -> None:
        """Add whole lines to the present segment; finish it if it is full. Does not sync.

        Raises:
            OSError: nothing was added. A part that the disk had taken is removed, or ends the segment: the next line
                does not continue it.
        """
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path(OPEN), flags, 0o644)
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
        os.close(self._descriptor)
        self._descriptor = None
        self._path(OPEN).rename(self._path(FINISHED))
        self._number += 1
        self._written = 0

    def _path(self, suffix: str) -> Path:
        return self._directory / f"{self._name}-{self._number:06}{suffix}"
