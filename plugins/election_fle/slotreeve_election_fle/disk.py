"""The files of one server's data directory: read at a start, and written as the disk effects ask.

Files: ``epochs``, ``snapshot``, ``identity``, and ``log-<generation>``, whose generation the snapshot names: replacing
the snapshot switches both at once. ``taking-over`` is there only while a leader's history is taken over. After a write
that failed (StorageError) it is not known what the disk holds, so the server is started again from what can be read.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import TypeVar

import msgspec
from slotreeve.errors import StorageError
from slotreeve.model.text import UNDECODABLE
from slotreeve.ports import Storage

from slotreeve_election_fle.effects import (
    AppendToLog,
    BeginTakingOver,
    DiskWrite,
    ReplaceLog,
    SaveEpochs,
    SaveIdentity,
    SaveSnapshot,
)
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.frames import frame, read_frames, seal, unseal
from slotreeve_election_fle.identity import Owner, bound_identity, check_identity, is_of, new_identity
from slotreeve_election_fle.ledger import LedgerContent, last_epoch
from slotreeve_election_fle.records import EpochsRecord, IdentityRecord, SnapshotRecord, TakingOverRecord

log = logging.getLogger("slotreeve.election.fle")
RecordT = TypeVar("RecordT")

EPOCHS = "epochs"
SNAPSHOT = "snapshot"
IDENTITY = "identity"
TAKING_OVER = "taking-over"
LOG_PREFIX = "log-"
TRIAL = "trial"
"""The file that is written to try a directory out; there only where that was cut short."""
EMPTY_SNAPSHOT = SnapshotRecord(0, 0, 0, [])
REMEDY = (
    "stop this node, move its data directory away and start it with an empty one: the other members admit it again "
    "and send it the state (a single node has to restore a backup)"
)
IDENTITY_REMEDY = "stop this node and start it with an empty directory: the other members admit it again"


class Disk:
    """One data directory. Blocking; every method may raise StorageError, which names the file and the remedy."""

    def __init__(self, storage: Storage, directory: str = "") -> None:
        """``directory``: for messages."""
        self._storage = storage
        self._directory = f"{directory}/" if directory else ""
        self._generation = 0
        self._taking_over = 0

    # --- writing --------------------------------------------------------------------------------------------------

    def write(self, effect: DiskWrite) -> None:
        """Carry out one effect; it is durable at the return. :meth:`read_ledger` comes first."""
        match effect:
            case AppendToLog(entries):
                self._append(entries)
            case SaveEpochs(accepted, current):
                self._write_epochs(EpochsRecord(accepted, current))
            case ReplaceLog(entries):
                self._replace_log(entries)
            case SaveSnapshot():
                self._write_snapshot(effect)
            case BeginTakingOver(epoch):
                self._storage.replace(TAKING_OVER, seal(msgspec.msgpack.encode(TakingOverRecord(epoch))))
                self._taking_over = epoch
            case SaveIdentity(identity):
                self._storage.replace(IDENTITY, seal(msgspec.msgpack.encode(identity)))

    def write_again(self) -> None:
        """Write what stands in a small file already, as durably as any write: its duration is that of the disk."""
        content = self._storage.read(EPOCHS)
        if content is not None:
            self._storage.replace(EPOCHS, content)

    def _append(self, entries: Sequence[Entry]) -> None:
        self._storage.append(self._log_name, frame(msgspec.msgpack.encode(entries)))

    def _write_epochs(self, epochs: EpochsRecord) -> None:
        self._storage.replace(EPOCHS, seal(msgspec.msgpack.encode(epochs)))
        self._end_taking_over(epochs.current)

    def _end_taking_over(self, current_epoch: int) -> None:
        if 0 < self._taking_over <= current_epoch:
            self._storage.remove(TAKING_OVER)
            self._taking_over = 0

    def _replace_log(self, entries: Sequence[Entry]) -> None:
        self._storage.replace(self._log_name, frame(msgspec.msgpack.encode(entries)))

    def _write_snapshot(self, effect: SaveSnapshot) -> None:
        """Write the next generation: first its log, then the snapshot that makes it the valid one."""
        old_log, generation = self._log_name, self._generation + 1
        self._storage.replace(f"{LOG_PREFIX}{generation}", frame(msgspec.msgpack.encode(effect.entries)))
        snapshot = SnapshotRecord(generation, effect.zxid, effect.chain, list(effect.items))
        self._storage.replace(SNAPSHOT, seal(msgspec.msgpack.encode(snapshot)))
        self._generation = generation
        self._storage.remove(old_log)

    # --- reading --------------------------------------------------------------------------------------------------

    def read_identity(self, owner: Owner, accepted_epoch: int, rng: random.Random) -> IdentityRecord:
        """The identity; a new directory gets one, and so does one that is the beginning of a new ensemble.
        ``accepted_epoch``: what the ledger has accepted.

        Raises:
            StorageError: also where the directory belongs to another server, or was made for other members, weights or
                groups.
        """
        held = None
        content = self._storage.read(IDENTITY)
        if content is None:
            identity = new_identity(owner, rng)
        else:
            held = identity = self._decode(IDENTITY, content, IdentityRecord, IDENTITY_REMEDY)
            if not identity.directory:
                identity = bound_identity(identity, owner, rng)
            if identity.is_new and not accepted_epoch and not identity.ensemble and not is_of(identity, owner):
                identity = new_identity(owner, rng)  # it has promised nothing yet: the configuration was corrected
            check_identity(identity, owner, self._path(IDENTITY))
            if not identity.name:  # an earlier version made it, in which a new directory had a vote
                is_new = not accepted_epoch
                identity = msgspec.structs.replace(
                    identity, name=owner.name, is_new=is_new, may_vote=identity.may_vote and not is_new
                )
        if identity != held:
            self.write(SaveIdentity(identity))
        return identity

    def read_ledger(self) -> LedgerContent:
        """Everything else. A new directory gets its first files; a log that a crash cut short is repaired."""
        snapshot = self._read_snapshot()
        self._generation = snapshot.generation
        entries = self._read_log()
        self._taking_over = self._read_taking_over()
        others = {name for name in self._storage.names() if _is_own(name)} - {self._log_name, TRIAL}
        epochs = self._read_epochs(is_new=not entries and not others)
        content = LedgerContent(epochs.accepted, epochs.current, snapshot.zxid, snapshot.chain, snapshot.items, entries)
        self._check_epochs(epochs, last_epoch(content))
        self._end_taking_over(epochs.current)
        for name in self._storage.names():
            if name == TRIAL or (name.startswith(LOG_PREFIX) and name != self._log_name):
                self._storage.remove(name)
        return content

    def _check_epochs(self, epochs: EpochsRecord, last: int) -> None:
        """Whether an older file was put back. A server that votes with an older current epoch gives way to one that has
        fewer writes."""
        older = f"an older file was put back; {REMEDY}"
        if epochs.accepted < max(epochs.current, last):
            raise StorageError(
                f"{self._path(EPOCHS)}: names {epochs.accepted} as the highest accepted epoch, but the directory has "
                f"already followed epoch {max(epochs.current, last)}: {older}"
            )
        if epochs.current < last and self._taking_over < last:
            raise StorageError(
                f"{self._path(EPOCHS)}: names {epochs.current} as the last epoch that was followed, but the log has "
                f"writes of epoch {last}: {older}"
            )

    def _read_taking_over(self) -> int:
        content = self._storage.read(TAKING_OVER)
        return 0 if content is None else self._decode(TAKING_OVER, content, TakingOverRecord, REMEDY).epoch

    def _read_snapshot(self) -> SnapshotRecord:
        content = self._storage.read(SNAPSHOT)
        return EMPTY_SNAPSHOT if content is None else self._decode(SNAPSHOT, content, SnapshotRecord, REMEDY)

    def _read_log(self) -> Sequence[Entry]:
        path = self._path(self._log_name)
        content = self._storage.read(self._log_name)
        if content is None:
            if self._storage.read(EPOCHS) is not None or self._log_names():
                raise StorageError(f"{path}: is missing, but the directory was used before; {REMEDY}")
            content = b""
        payloads, cut = read_frames(content, path, REMEDY)
        entries: list[Entry] = []
        for payload in payloads:
            try:
                entries.extend(msgspec.msgpack.decode(payload, type=list[Entry]))
            except UNDECODABLE as error:
                raise StorageError(f"{path}: holds something that is not a log entry ({error}); {REMEDY}") from None
        if cut:
            log.warning("%s: dropped %d bytes of an append that a crash cut short", path, cut)
        # What was read may be in the machine's memory only, if the process before this one ended with a failed sync.
        self._replace_log(entries)
        return entries

    def _read_epochs(self, is_new: bool) -> EpochsRecord:
        content = self._storage.read(EPOCHS)
        if content is not None:
            return self._decode(EPOCHS, content, EpochsRecord, REMEDY)
        if not is_new:
            raise StorageError(f"{self._path(EPOCHS)}: is missing, and with it this node's promises; {REMEDY}")
        epochs = EpochsRecord(0, 0)
        self._write_epochs(epochs)
        return epochs

    @property
    def _log_name(self) -> str:
        return f"{LOG_PREFIX}{self._generation}"

    def _log_names(self) -> list[str]:
        return [name for name in self._storage.names() if name.startswith(LOG_PREFIX)]

    def _path(self, name: str) -> str:
        return f"{self._directory}{name}"

    def _decode(self, name: str, content: bytes, kind: type[RecordT], remedy: str) -> RecordT:
        path = self._path(name)
        try:
            return msgspec.msgpack.decode(unseal(content, path, remedy), type=kind)
        except UNDECODABLE as error:
            raise StorageError(f"{path}: was written by something else ({error}); {remedy}") from None


def _is_own(name: str) -> bool:
    """Whether this is the name of a file of the election. Others may be there: a README, what a file system adds."""
    return name in (EPOCHS, SNAPSHOT, IDENTITY, TAKING_OVER) or name.startswith(LOG_PREFIX)
