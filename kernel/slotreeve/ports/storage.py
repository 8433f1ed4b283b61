"""The port of storage: a directory that one process owns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Storage(Protocol):
    """A directory that one process owns. Calls block; writes should be small and rare. Names are plain file names."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none.

        Raises:
            StorageError: the file exists but cannot be read.
        """

    def replace(self, name: str, content: bytes) -> None:
        """Replace the content of a file, atomically and durably: the new content survives a power cut after the
        return, and a reader sees either the old or the new content at any time.

        Raises:
            StorageError: the file still has its old content.
        """

    def append(self, name: str, content: bytes) -> None:
        """Append to a file durably; create it if it is missing. A crash may leave a part of ``content``.

        Raises:
            StorageError: a part of ``content`` may have been appended.
        """

    def remove(self, name: str) -> None:
        """Remove a file durably. Does nothing if there is none."""

    def names(self) -> Sequence[str]:
        """The names of the files, sorted."""

    def close(self) -> None:
        """Release the lock of the directory."""
