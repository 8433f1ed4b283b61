"""A data directory that is left of an ensemble whose majority is lost, and what makes it the beginning of a new one.

No server of the old ensemble takes part in the new one, nor the other way round: greetings name the ensemble. Every
member of the new ensemble starts with a copy of the directory, so any quorum of it has the whole history from the
beginning, and the rules of docs/fle.md hold as they are. docs/decisions/0018-a-forced-new-cluster.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve.errors import StorageError
from slotreeve.ports import Storage
from slotreeve_machines.storage import MemoryStorage

from slotreeve_election_fle.disk import EPOCHS, Disk
from slotreeve_election_fle.effects import SaveEpochs, SaveIdentity
from slotreeve_election_fle.identity import unbound_identity
from slotreeve_election_fle.ledger import Ledger

SKIPPED_EPOCHS = 1 << 20
"""The new ensemble begins so many epochs above the last one that the directory has accepted: the lost members may have
had leaders that it knows nothing of."""
HIGHEST_EPOCH = (1 << 32) - 1
NO_SNAPSHOT = 1 << 62


@dataclass(frozen=True)
class LeftHistory:
    """What a directory holds.

    Attributes:
        current_epoch: the last epoch whose leader its server was in sync with.
        last_zxid: the last write in its log, whether it was acknowledged or not.
        accepted_epoch: the highest epoch that its server has accepted.
        keys: how many keys the meta state has.
    """

    current_epoch: int
    last_zxid: int
    accepted_epoch: int
    keys: int


class LeftDirectory:
    """One directory, locked until :meth:`close`. No server runs on it. Blocking."""

    def __init__(self, storage: Storage, path: str) -> None:
        """``path``: for messages."""
        self._storage, self._path = storage, path

    def history(self) -> LeftHistory:
        """Read it; nothing is written.

        Raises:
            StorageError: it is damaged, or no server has ever taken part in an election with it.
        """
        copy = MemoryStorage().open()  # since reading repairs what a crash cut short
        for name in self._storage.names():
            copy.replace(name, self._storage.read(name) or b"")
        if copy.read(EPOCHS) is None:
            raise StorageError(f"{self._path}: this is no data directory of the fle election (it has no file epochs)")
        content = Disk(copy, self._path).read_ledger()
        if not content.accepted_epoch:
            raise StorageError(f"{self._path}: its server has never followed a leader, so it holds no state")
        ledger = Ledger(content, NO_SNAPSHOT)
        ledger.commit(ledger.last_zxid)
        return LeftHistory(content.current_epoch, ledger.last_zxid, content.accepted_epoch, len(ledger.table))

    def begin_ensemble(self, name: str) -> None:
        """Make it the beginning of the ensemble ``name``. After an error, or a crash, it is the old one still.

        Raises:
            StorageError: it is damaged, cannot be written, or its epochs are used up.
        """
        history = self.history()
        accepted = history.accepted_epoch + SKIPPED_EPOCHS
        if accepted > HIGHEST_EPOCH - SKIPPED_EPOCHS:
            raise StorageError(f"{self._path}: has accepted epoch {history.accepted_epoch}, no higher ones are left")
        disk = Disk(self._storage, self._path)
        disk.write(SaveEpochs(accepted, history.current_epoch))
        disk.write(SaveIdentity(unbound_identity(name)))

    def close(self) -> None:
        """Release the lock."""
        self._storage.close()
