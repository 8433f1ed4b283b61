"""Directories that one process owns: on disk, and in memory for tests and single-node development."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from slotreeve.errors import StorageError

LOCK_NAME = "lock"
_TEMPORARY_SUFFIX = ".tmp"


class DirectoryStorage:
    """The Storage port on a directory, locked with ``flock`` for the life of the object.

    Create it with :meth:`open`. Every write is durable when the method returns: the file's content is synced before
    a rename, and the directory after it. Works on one machine's own file systems; a network file system whose
    ``flock`` or ``fsync`` lies voids the guarantees.
    """

    def __init__(self, directory: Path, lock: int) -> None:
        self._directory = directory
        self._lock: int | None = lock
        self._appending: tuple[str, int] | None = None

    @classmethod
    def open(cls, directory: str | Path) -> DirectoryStorage:
        """Lock ``directory``, creating it (but not its parent) if it is missing.

        Raises:
            StorageError: its parent is missing, it is not a directory, it is not writable, or another process
                holds it; the message names the path.
        """
        path = Path(directory)
        _ensure_directory(path)
        lock_path = path / LOCK_NAME
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"{path}: not writable ({error.strerror}); this process needs to own it") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(lock)
            os.close(lock)
            raise StorageError(
                f"{path}: locked by another process{holder}; two processes cannot share one data directory"
            ) from None
        try:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        except OSError as error:
            os.close(lock)
            raise StorageError(f"{lock_path}: cannot be written: {error.strerror}") from None
        return cls(path, lock)

    def read(self, name: str) -> bytes | None:
        """The whole of a file, or None if there is none; see :class:`slotreeve.ports.Storage`."""
        path = self._path(name)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{path}: cannot be read: {error.strerror}") from None

    def replace(self, name: str, content: bytes) -> None:
        """Atomically and durably put ``content`` in the place of the file; see :class:`slotreeve.ports.Storage`.

        Where only the very last step fails, the sync of the directory, StorageError is raised although the new content
        is there already: until the next successful write it is not known which of the two a power cut would leave.
        """
        path = self._path(name)
        temporary = path.with_name(name + _TEMPORARY_SUFFIX)
        self._stop_appending(name)
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            _sync_directory(self._directory)
        except OSError as error:
            raise StorageError(f"{path}: cannot be replaced: {error.strerror}") from None

    def append(self, name: str, content: bytes) -> None:
        """Durably add to the end of a file, created if missing; see :class:`slotreeve.ports.Storage`."""
        try:
            descriptor = self._descriptor(name)
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except OSError as error:
            self._stop_appending(name)
            raise StorageError(f"{self._path(name)}: cannot be appended to: {error.strerror}") from None

    def remove(self, name: str) -> None:
        """Remove a file durably; nothing happens if there is none."""
        path = self._path(name)
        self._stop_appending(name)
        try:
            path.unlink(missing_ok=True)
            _sync_directory(self._directory)
        except OSError as error:
            raise StorageError(f"{path}: cannot be removed: {error.strerror}") from None

    def names(self) -> Sequence[str]:
        """The names of the files, sorted; the lock and left-over temporary files are not among them."""
        try:
            entries = [entry.name for entry in os.scandir(self._directory) if entry.is_file()]
        except OSError as error:
            raise StorageError(f"{self._directory}: cannot be listed: {error.strerror}") from None
        return sorted(n for n in entries if n != LOCK_NAME and not n.endswith(_TEMPORARY_SUFFIX))

    def close(self) -> None:
        """Give up the lock. Idempotent; nothing else may be called afterwards."""
        if self._appending is not None:
            self._stop_appending(self._appending[0])
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _path(self, name: str) -> Path:
        _check_name(name)
        if self._lock is None:
            raise StorageError(f"{self._directory}: was closed")
        return self._directory / name

    def _descriptor(self, name: str) -> int:
        """The open file that ``name`` is appended to; one is kept open, since one log is what is appended to."""
        path = self._path(name)
        if self._appending is not None and self._appending[0] == name:
            return self._appending[1]
        if self._appending is not None:
            self._stop_appending(self._appending[0])
        is_new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._appending = (name, descriptor)
        if is_new:
            _sync_directory(self._directory)
        return descriptor

    def _stop_appending(self, name: str) -> None:
        if self._appending is not None and self._appending[0] == name:
            os.close(self._appending[1])
            self._appending = None


class MemoryStorage:
    """The Storage port in memory: as durable as this object. For tests, simulation and single-node development.

    A test that restarts a node hands the same object to its next life (:meth:`crash` then gives up the ownership as
    a killed process would). Since every operation is durable when it returns, a crash loses nothing.

    Attributes:
        files: the content by name.
        failure: while not None, every write is refused with this text (``"No space left on device"``).
        sync_seconds: how long a sync takes. A caller that waits for it uses
            :class:`slotreeve_machines.disk_worker.MemoryWorker`; the calls themselves return at once.
        syncs: how many syncs a directory on a disk would have made.
        under_way: the job of a :class:`~slotreeve_machines.disk_worker.MemoryWorker` that waits for its first sync.
    """

    def __init__(self, name: str = "memory") -> None:
        self.files: dict[str, bytes] = {}
        self.failure: str | None = None
        self.sync_seconds = 0.0
        self.syncs = 0
        self.under_way: Callable[[], None] | None = None
        self._name = name
        self._owned = False

    def open(self) -> MemoryStorage:
        """Take the ownership, as :meth:`DirectoryStorage.open` does with its lock.

        Raises:
            StorageError: another owner has it.
        """
        if self._owned:
            raise StorageError(f"{self._name}: locked by another process; two processes cannot share one directory")
        self._owned = True
        return self

    def crash(self, power_lost: bool = False) -> None:
        """The owning process was killed: the ownership ends, what was written stays. ``power_lost``: its machine went
        down too; since all that was written is durable, that makes no difference here."""
        self.under_way = None
        self._owned = False

    def read(self, name: str) -> bytes | None:
        """The whole of a file, or None."""
        _check_name(name)
        return self.files.get(name)

    def replace(self, name: str, content: bytes) -> None:
        """Put ``content`` in the place of the file."""
        self._check_writable(name)
        self.syncs += 2
        self.files[name] = bytes(content)

    def append(self, name: str, content: bytes) -> None:
        """Add to the end of a file, created if missing."""
        self._check_writable(name)
        self.syncs += 1
        self.files[name] = self.files.get(name, b"") + content

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none."""
        self._check_writable(name)
        self.syncs += 1
        self.files.pop(name, None)

    def names(self) -> Sequence[str]:
        """The names of the files, sorted."""
        return sorted(self.files)

    def close(self) -> None:
        """Give up the ownership. Idempotent."""
        self._owned = False

    def _check_writable(self, name: str) -> None:
        _check_name(name)
        if self.failure is not None:
            raise StorageError(f"{self._name}/{name}: cannot be written: {self.failure}")


def _check_name(name: str) -> None:
    if not name or "/" in name or name in (".", "..", LOCK_NAME) or name.endswith(_TEMPORARY_SUFFIX):
        raise StorageError(f"{name!r} is not a plain file name that a storage can hold")


def _ensure_directory(path: Path) -> None:
    try:
        if not path.exists():
            path.mkdir(mode=0o700)
            _sync_directory(path.parent)
    except FileNotFoundError:
        raise StorageError(f"{path}: its parent {path.parent} does not exist; create it first") from None
    except FileExistsError:
        pass  # another process made it between the two calls; the lock decides which of them owns it
    except OSError as error:
        raise StorageError(f"{path}: cannot be created: {error.strerror}") from None
    if not path.is_dir():
        raise StorageError(f"{path}: is not a directory")


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _holder(lock: int) -> str:
    try:
        text = os.pread(lock, 32, 0).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return f" (process {text})" if text else ""
