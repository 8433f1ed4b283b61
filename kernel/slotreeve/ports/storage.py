"""The port of storage: a directory that one process owns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Storage(Protocol):
    """A directory that one process owns. Blocking; meant for small, rare writes. Names are plain file names."""

    def read(self, name: str) -> bytes | None:
        """The whole of a file, or None if there is none.

        Raises:
            StorageError: it exists but cannot be read.
        """

    def replace(self, name: str, content: bytes) -> None:
        """Put ``content`` in the place of the file, atomically and durably: after the return it survives a power
        cut, and at no time can a mixture or an empty file be read.

        Raises:
            StorageError: not done; the old content is still there.
        """

    def append(self, name: str, content: bytes) -> None:
        """Add to the end of a file (created if missing), durably. After a crash a part of it may be there.

        Raises:
            StorageError: the content may be there in part.
        """

    def remove(self, name: str) -> None:
        """Remove a file durably; nothing happens if there is none."""

    def names(self) -> Sequence[str]:
        """The names of the files, sorted."""

    def close(self) -> None:
        """Give up the ownership (the lock) of the directory."""
