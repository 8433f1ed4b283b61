"""A disk in memory that loses what was not synced when its process or its machine dies during a write."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from slotreeve.errors import StorageError
from slotreeve_machines.storage import MemoryStorage

SECTOR = 512
"""Bytes that a disk writes as a whole."""
MOST_OPERATIONS = 3
"""A job writes at most so many files."""


@dataclass(frozen=True)
class _Unsynced:
    """What may stand in a file after a loss of power."""

    before: bytes | None
    after: bytes | None
    is_append: bool


class LossyStorage(MemoryStorage):
    """The Storage port as a real disk keeps it.

    What a method has returned from is durable. A job that is under way at a crash is carried out in part: some of its
    writes, and then one that is not finished. After the end of the process alone, the next one reads what that write
    has brought into the machine's memory: the beginning of an append, the old or the new file of a replacement. If the
    machine loses its power then, or later without another sync of the file, any sectors of an append may be missing.
    Where the new file of a replacement was there it is open again which of the two is, until the directory is synced,
    as every replacement and removal does; where the old one was there it stays. An append that a full disk refuses
    leaves its beginning.
    """

    def __init__(self, name: str, rng: random.Random) -> None:
        super().__init__(name)
        self._rng = rng
        self._unsynced: dict[str, _Unsynced] = {}
        self._operations_left: int | None = None

    def crash(self, power_lost: bool = False) -> None:
        """The process was killed, or its machine has lost its power."""
        job = self.under_way
        if job is not None:
            self._interrupt(job)
        if power_lost:
            for name, lost in self._unsynced.items():
                self._put(name, self._after_power_loss(lost))
            self._unsynced.clear()
        super().crash(power_lost)

    def replace(self, name: str, content: bytes) -> None:
        """See :class:`slotreeve.ports.Storage`."""
        if self._is_cut():
            self._half_done(name, bytes(content), is_append=False)
        super().replace(name, content)
        self._unsynced.pop(name, None)
        self._directory_is_synced()

    def append(self, name: str, content: bytes) -> None:
        """See :class:`slotreeve.ports.Storage`."""
        if self._is_cut() or self.failure is not None:
            self._half_done(name, self.files.get(name, b"") + content, is_append=True)
        super().append(name, content)
        self._unsynced.pop(name, None)

    def remove(self, name: str) -> None:
        """See :class:`slotreeve.ports.Storage`."""
        if self._is_cut():
            self._half_done(name, None, is_append=False)
        super().remove(name)
        self._unsynced.pop(name, None)
        self._directory_is_synced()

    # --- a crash -----------------------------------------------------------------------------------------------------

    def _interrupt(self, job: Callable[[], None]) -> None:
        self._operations_left = self._rng.randrange(MOST_OPERATIONS)
        try:
            job()
        except StorageError:
            pass  # what the process would have seen had it lived; it does not
        finally:
            self._operations_left = None

    def _is_cut(self) -> bool:
        """Whether the crash comes during this operation."""
        if self._operations_left is None:
            return False
        self._operations_left -= 1
        return self._operations_left < 0

    def _half_done(self, name: str, after: bytes | None, is_append: bool) -> None:
        """Leave what the machine's memory has of an operation. Raises StorageError."""
        before = self.files.get(name)
        known = self._unsynced.get(name)
        unsynced = _Unsynced(before if known is None else known.before, after, is_append)
        if is_append and after is not None:
            self._unsynced[name] = unsynced
            self._put(name, after[: self._rng.randint(len(before or b""), len(after))])
        elif self._rng.random() < 0.5:
            self._unsynced[name] = unsynced
            self._put(name, after)
        raise StorageError(f"{name}: cannot be written: {self.failure or 'the process ended'}")

    def _directory_is_synced(self) -> None:
        """Which file has which name is durable now, whatever the files hold."""
        self._unsynced = {name: lost for name, lost in self._unsynced.items() if lost.is_append}

    def _after_power_loss(self, lost: _Unsynced) -> bytes | None:
        if not lost.is_append or lost.after is None:
            return self._rng.choice([lost.before, lost.after])
        before = lost.before or b""
        reached = bytearray(lost.after[: self._rng.choice([len(before), len(lost.after), self._between(lost)])])
        for begin in range(len(before) - len(before) % SECTOR, len(reached), SECTOR):
            hole = range(max(begin, len(before)), min(begin + SECTOR, len(reached)))
            if self._rng.random() < 0.3:
                reached[hole.start : hole.stop] = bytes(len(hole))
        return bytes(reached)

    def _between(self, lost: _Unsynced) -> int:
        return self._rng.randint(len(lost.before or b""), len(lost.after or b""))

    def _put(self, name: str, content: bytes | None) -> None:
        if content is None:
            self.files.pop(name, None)
        else:
            self.files[name] = content
