"""A ledger on a disk of its own, for tests that play a server without its shell."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.ports import Storage
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.effects import DiskWrite
from slotreeve_election_fle.ledger import Ledger


class DurableLedger(Ledger):
    """What a storage holds; :meth:`save` carries out the effects of its other methods."""

    def __init__(self, storage: Storage, snapshot_every: int = 1_000, directory: str = "") -> None:
        self.disk = Disk(storage, directory)
        super().__init__(self.disk.read_ledger(), snapshot_every)

    def save(self, writes: Iterable[DiskWrite]) -> None:
        for write in writes:
            self.disk.write(write)
