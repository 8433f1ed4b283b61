"""What one server has on disk: accepted and current epoch, snapshot and log; and the table they lead to.

Files: ``epochs``, ``snapshot``, and ``log-<generation>``, whose generation the snapshot names: replacing the snapshot
switches both at once. Where a write fails (StorageError) the ledger must not be used any more, since nobody knows what
the disk holds then; a new one reads it. Spec sections 6.1, 6.2, 8.3.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
from slotreeve.errors import ElectionError, StorageError
from slotreeve.ports import Storage, Versioned

from slotreeve_election_fle.entries import Changes, Entry, Item, chained, items_of, table_of
from slotreeve_election_fle.records import frame, read_frames, unseal
from slotreeve_election_fle.vote import epoch_of

log = logging.getLogger("slotreeve.election.fle")
_T = TypeVar("_T")

EPOCHS = "epochs"
SNAPSHOT = "snapshot"
LOG_PREFIX = "log-"
SNAPSHOT_LOG_BYTES = 16 * 1024 * 1024
"""A log that holds more than this is replaced by a snapshot, however few its entries."""
REMEDY = (
    "stop this node, move its data directory away and start it with an empty one: the other members admit it again "
    "and send it the state (a single node has to restore a backup)"
)


class _Epochs(msgspec.Struct, array_like=True, frozen=True):
    accepted: int
    current: int


class _Snapshot(msgspec.Struct, array_like=True, frozen=True):
    generation: int
    zxid: int
    chain: int
    items: list[Item]


class Ledger:
    """The durable memory of one server. Methods that write raise StorageError; nothing is done with the ledger then.

    Attributes:
        accepted_epoch: the highest epoch ever acknowledged; never goes back.
        current_epoch: the last epoch whose leader this server was in sync with.
        committed_zxid: everything up to it is committed and in ``table``.
        table: the committed state by key.
    """

    def __init__(self, storage: Storage, snapshot_every: int, directory: str = "") -> None:
        """Read the directory; ``snapshot_every``: committed log entries after which a snapshot replaces the log.

        Raises:
            StorageError: a file is damaged or missing; names it (below ``directory``) and says what to do.
        """
        self._storage = storage
        self._snapshot_every = snapshot_every
        self._directory = f"{directory}/" if directory else ""
        self.accepted_epoch = self.current_epoch = 0
        self.table: dict[str, Versioned] = {}
        self.committed_zxid = 0
        self._generation = self._base_zxid = self._base_chain = 0
        self._entries: list[Entry] = []
        self._chains: list[int] = []
        self._log_bytes = 0
        self._read_snapshot()
        self._read_log()
        self._read_epochs()
        self._remove_stale_logs()

    # --- epochs ---------------------------------------------------------------------------------------------------

    def accept(self, epoch: int) -> None:
        """Durably accept ``epoch``; it must be higher than every one accepted before (S2)."""
        if epoch <= self.accepted_epoch:
            raise ElectionError(f"epoch {epoch} cannot be accepted again: {self.accepted_epoch} already is")
        self._write_epochs(_Epochs(epoch, self.current_epoch))

    def enter(self, epoch: int) -> None:
        """Durably record being in sync with the leader of ``epoch``, which must have been accepted."""
        if epoch > self.accepted_epoch:
            raise ElectionError(f"epoch {epoch} was not accepted; the highest accepted is {self.accepted_epoch}")
        if epoch != self.current_epoch:
            self._write_epochs(_Epochs(self.accepted_epoch, epoch))

    # --- history --------------------------------------------------------------------------------------------------

    @property
    def last_zxid(self) -> int:
        """The number of the last logged entry."""
        return self._entries[-1].zxid if self._entries else self._base_zxid

    @property
    def last_chain(self) -> int:
        """The checksum of the whole history."""
        return self._chains[-1] if self._chains else self._base_chain

    def point_before(self, zxid: int) -> int | None:
        """The greatest number in this history that is not greater than ``zxid``; None where the log starts later."""
        if zxid < self._base_zxid:
            return None
        index = self._index_after(zxid)
        return self._entries[index - 1].zxid if index else self._base_zxid

    def chain_at(self, zxid: int) -> int | None:
        """The checksum of the history up to and with ``zxid``; None if that is not in the log."""
        if zxid == self._base_zxid:
            return self._base_chain
        index = self._index_after(zxid) - 1
        return self._chains[index] if index >= 0 and self._entries[index].zxid == zxid else None

    def entries_after(self, zxid: int) -> Sequence[Entry]:
        """The logged entries after ``zxid``."""
        return self._entries[self._index_after(zxid) :]

    def append(self, entries: Sequence[Entry]) -> None:
        """Durably add ``entries``, which follow the last one, with one sync for all."""
        if not entries:
            return
        payload = msgspec.msgpack.encode(entries)
        self._storage.append(self._log_name, frame(payload))
        self._log_bytes += len(payload)
        self._extend(entries)

    def keep_and_append(self, keep_to: int, entries: Sequence[Entry]) -> None:
        """Durably make the history the present one up to ``keep_to`` (which it holds), followed by ``entries``.

        Raises:
            ElectionError: that would take back a committed entry.
        """
        if keep_to == self.last_zxid:
            self.append(entries)
            return
        if keep_to < self.committed_zxid:
            raise ElectionError(f"would roll back to {keep_to:#x}, but {self.committed_zxid:#x} is committed")
        kept = self._index_after(keep_to)
        self._rewrite_log([*self._entries[:kept], *entries])
        del self._entries[kept:], self._chains[kept:]
        self._extend(entries)

    def install(self, zxid: int, chain: int, items: Iterable[Item], entries: Sequence[Entry]) -> Changes:
        """Durably put a whole history in the place of the present one; the keys whose committed value changed."""
        snapshot_items = list(items)
        self._write_snapshot(zxid, chain, snapshot_items, entries)
        before = self.table
        committed = min(max(self.committed_zxid, zxid), self.last_zxid)
        self.table = table_of(snapshot_items)
        self.committed_zxid = zxid
        self._apply_until(committed)  # what readers have seen already must not disappear again
        return [(key, held) for key, held in sorted(self.table.items()) if before.get(key) != held]

    def commit(self, zxid: int) -> Changes:
        """Apply the logged entries up to ``zxid``; the changes, in order. Beyond the log's end nothing is applied."""
        changes = self._apply_until(min(zxid, self.last_zxid))
        if changes and self._snapshot_is_due():
            chain = self.chain_at(self.committed_zxid)
            assert chain is not None  # what was just applied is in the log
            self._write_snapshot(
                self.committed_zxid, chain, items_of(self.table), self.entries_after(self.committed_zxid)
            )
        return changes

    def _apply_until(self, zxid: int) -> Changes:
        changes: Changes = []
        first = self._index_after(self.committed_zxid)
        for entry in self._entries[first : self._index_after(zxid)]:
            self.table[entry.key] = entry.outcome()
            self.committed_zxid = entry.zxid
            changes.append((entry.key, self.table[entry.key]))
        return changes

    def _index_after(self, zxid: int) -> int:
        return bisect.bisect_right(self._entries, zxid, key=_zxid)

    def _extend(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._chains.append(chained(self.last_chain, entry))
            self._entries.append(entry)

    def _snapshot_is_due(self) -> bool:
        committed = self._index_after(self.committed_zxid)
        return committed >= self._snapshot_every or (committed > 0 and self._log_bytes > SNAPSHOT_LOG_BYTES)

    # --- files ----------------------------------------------------------------------------------------------------

    @property
    def _log_name(self) -> str:
        return f"{LOG_PREFIX}{self._generation}"

    def _write_epochs(self, epochs: _Epochs) -> None:
        self._storage.replace(EPOCHS, frame(msgspec.msgpack.encode(epochs)))
        self.accepted_epoch, self.current_epoch = epochs.accepted, epochs.current

    def _rewrite_log(self, entries: Sequence[Entry]) -> None:
        payload = msgspec.msgpack.encode(entries)
        self._storage.replace(self._log_name, frame(payload))
        self._log_bytes = len(payload)

    def _write_snapshot(self, zxid: int, chain: int, items: list[Item], entries: Sequence[Entry]) -> None:
        """Write the next generation: first its log, then the snapshot that makes it the valid one."""
        old_log, generation = self._log_name, self._generation + 1
        payload = msgspec.msgpack.encode(entries)
        self._storage.replace(f"{LOG_PREFIX}{generation}", frame(payload))
        snapshot = _Snapshot(generation, zxid, chain, items)
        self._storage.replace(SNAPSHOT, frame(msgspec.msgpack.encode(snapshot)))
        self._generation = generation
        self._base_zxid, self._base_chain = zxid, chain
        kept = list(entries)
        self._entries, self._chains = [], []
        self._extend(kept)
        self._log_bytes = len(payload)
        self._storage.remove(old_log)

    def _read_snapshot(self) -> None:
        content = self._storage.read(SNAPSHOT)
        if content is None:
            return
        snapshot = self._decode(SNAPSHOT, content, _Snapshot)
        self._generation, self._base_zxid, self._base_chain = snapshot.generation, snapshot.zxid, snapshot.chain
        self.table = table_of(snapshot.items)
        self.committed_zxid = snapshot.zxid

    def _read_log(self) -> None:
        path = f"{self._directory}{self._log_name}"
        content = self._storage.read(self._log_name)
        if content is None:
            if self._storage.read(EPOCHS) is not None or self._log_names():
                raise StorageError(f"{path}: is missing, but the directory was used before; {REMEDY}")
            content = b""
        payloads, cut = read_frames(content, path, REMEDY)
        for payload in payloads:
            try:
                self._extend(msgspec.msgpack.decode(payload, type=list[Entry]))
            except msgspec.MsgspecError as error:
                raise StorageError(f"{path}: holds something that is not a log entry ({error}); {REMEDY}") from None
        if cut:
            log.warning("%s: dropped %d bytes of an append that a crash cut short", path, cut)
        # What was read may be in the machine's memory only, if an earlier life ended with a failed sync.
        self._rewrite_log(self._entries)

    def _read_epochs(self) -> None:
        path = f"{self._directory}{EPOCHS}"
        content = self._storage.read(EPOCHS)
        lowest = epoch_of(self.last_zxid)
        if content is None:
            if lowest > 0 or set(self._storage.names()) - {self._log_name}:
                raise StorageError(f"{path}: is missing, and with it this node's promises; {REMEDY}")
            self._write_epochs(_Epochs(0, 0))
            return
        epochs = self._decode(EPOCHS, content, _Epochs)
        lowest = max(epochs.current, lowest)
        if epochs.accepted < lowest:
            raise StorageError(
                f"{path}: says that epoch {epochs.accepted} is the highest accepted, but the directory has already "
                f"followed epoch {lowest}: an older file was put back; {REMEDY}"
            )
        self.accepted_epoch, self.current_epoch = epochs.accepted, epochs.current

    def _remove_stale_logs(self) -> None:
        for name in self._log_names():
            if name != self._log_name:
                self._storage.remove(name)

    def _log_names(self) -> list[str]:
        return [name for name in self._storage.names() if name.startswith(LOG_PREFIX)]

    def _decode(self, name: str, content: bytes, kind: type[_T]) -> _T:
        path = f"{self._directory}{name}"
        try:
            return msgspec.msgpack.decode(unseal(content, path, REMEDY), type=kind)
        except msgspec.MsgspecError as error:
            raise StorageError(f"{path}: was written by something else ({error}); {REMEDY}") from None


def _zxid(entry: Entry) -> int:
    return entry.zxid
