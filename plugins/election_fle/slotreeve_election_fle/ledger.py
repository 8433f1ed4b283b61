"""What one server knows durably: accepted and current epoch, the log, and the table that it leads to. Pure.

The ledger keeps in memory what the disk holds, or will hold once the effects that its methods return are carried out.
A method that changes something durable returns those effects; its caller gives them out before every effect that
depends on them. docs/fle.md, sections 6.1, 6.2 and 8.3.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from slotreeve.errors import ElectionError
from slotreeve.ports import Versioned

from slotreeve_election_fle.effects import AppendToLog, BeginTakingOver, ReplaceLog, SaveEpochs, SaveSnapshot
from slotreeve_election_fle.entries import Changes, Entry, Item, chained, items_of, table_of
from slotreeve_election_fle.vote import epoch_of

SNAPSHOT_LOG_BYTES = 16 * 1024 * 1024
"""A log that holds more than this is replaced by a snapshot, however few its entries."""


@dataclass(frozen=True)
class LedgerContent:
    """What a data directory holds; by default that of a new one.

    Attributes:
        accepted_epoch, current_epoch: see :class:`Ledger`.
        base_zxid, base_chain: where the snapshot ends, and the checksum of the history up to there.
        items: the table in the snapshot.
        entries: the log after it.
    """

    accepted_epoch: int = 0
    current_epoch: int = 0
    base_zxid: int = 0
    base_chain: int = 0
    items: Sequence[Item] = field(default_factory=tuple)
    entries: Sequence[Entry] = field(default_factory=tuple)


class Ledger:
    """The durable memory of one server.

    Attributes:
        accepted_epoch: the highest epoch ever accepted; never goes back.
        current_epoch: the last epoch whose leader this server was in sync with.
        committed_zxid: everything up to it is committed and in ``table``.
        table: the committed state by key.
    """

    def __init__(self, content: LedgerContent, snapshot_every: int) -> None:
        """``snapshot_every``: committed log entries after which a snapshot replaces the log."""
        self._snapshot_every = snapshot_every
        self.accepted_epoch = content.accepted_epoch
        self.current_epoch = content.current_epoch
        self.table: dict[str, Versioned] = table_of(content.items)
        self.committed_zxid = content.base_zxid
        self._begin_log(content.base_zxid, content.base_chain, content.entries)

    # --- epochs ---------------------------------------------------------------------------------------------------

    def accept(self, epoch: int) -> list[SaveEpochs]:
        """Accept ``epoch``.

        Raises:
            ElectionError: it is not higher than every epoch accepted before (docs/fle.md, R2).
        """
        if epoch <= self.accepted_epoch:
            raise ElectionError(f"epoch {epoch} cannot be accepted again: {self.accepted_epoch} already is")
        self.accepted_epoch = epoch
        return [SaveEpochs(epoch, self.current_epoch)]

    def enter(self, epoch: int) -> list[SaveEpochs]:
        """Record that this server is in sync with the leader of ``epoch``.

        Raises:
            ElectionError: it was not accepted before.
        """
        if epoch > self.accepted_epoch:
            raise ElectionError(f"epoch {epoch} was not accepted; the highest accepted is {self.accepted_epoch}")
        if epoch == self.current_epoch:
            return []
        self.current_epoch = epoch
        return [SaveEpochs(self.accepted_epoch, epoch)]

    def take_over_from(self, last_zxid: int) -> list[BeginTakingOver]:
        """A leader's history that ends with ``last_zxid`` will be written. Until :meth:`enter` the log may hold entries
        of a leader with which this server was never in sync; otherwise that is a sign of an older file ``epochs``."""
        epoch = epoch_of(last_zxid)
        return [BeginTakingOver(epoch)] if epoch > self.current_epoch else []

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

    def append(self, entries: Sequence[Entry]) -> list[AppendToLog]:
        """Add ``entries``, which follow the last one."""
        if not entries:
            return []
        self._extend(entries)
        return [AppendToLog(entries)]

    def keep_and_append(self, keep_to: int, entries: Sequence[Entry]) -> list[AppendToLog] | list[ReplaceLog]:
        """Make the history the present one up to ``keep_to`` (which it holds), followed by ``entries``.

        Raises:
            ElectionError: that would take back a committed entry.
        """
        if keep_to == self.last_zxid:
            return self.append(entries)
        if keep_to < self.committed_zxid:
            raise ElectionError(f"would roll back to {keep_to:#x}, but {self.committed_zxid:#x} is committed")
        kept = self._entries[: self._index_after(keep_to)]
        self._begin_log(self._base_zxid, self._base_chain, [*kept, *entries])
        return [ReplaceLog(tuple(self._entries))]

    def install(
        self, zxid: int, chain: int, items: Sequence[Item], entries: Sequence[Entry]
    ) -> tuple[list[SaveSnapshot], Changes]:
        """Put a whole history in the place of the present one; also the keys whose committed value changed by that."""
        before = self.table
        self._begin_log(zxid, chain, entries)
        committed = min(max(self.committed_zxid, zxid), self.last_zxid)
        self.table = table_of(items)
        self.committed_zxid = zxid
        self._apply_until(committed)  # what readers have seen already must not disappear again
        changes = [(key, held) for key, held in sorted(self.table.items()) if before.get(key) != held]
        return [SaveSnapshot(zxid, chain, items, entries)], changes

    # --- committing -----------------------------------------------------------------------------------------------

    def commit(self, zxid: int) -> Changes:
        """Apply the logged entries up to ``zxid``; the changes, in order. Beyond the log's end nothing is applied."""
        return self._apply_until(min(zxid, self.last_zxid))

    def snapshot_if_due(self) -> list[SaveSnapshot]:
        """A snapshot of what is committed in the place of the log up to there, once the log is long enough."""
        committed = self._index_after(self.committed_zxid)
        if committed < self._snapshot_every and (committed == 0 or self._log_bytes <= SNAPSHOT_LOG_BYTES):
            return []
        chain = self.chain_at(self.committed_zxid)
        assert chain is not None  # what is committed is in the log
        entries = self.entries_after(self.committed_zxid)
        self._begin_log(self.committed_zxid, chain, entries)
        return [SaveSnapshot(self.committed_zxid, chain, items_of(self.table), entries)]

    def _apply_until(self, zxid: int) -> Changes:
        changes: Changes = []
        first = self._index_after(self.committed_zxid)
        for entry in self._entries[first : self._index_after(zxid)]:
            self.table[entry.key] = entry.outcome()
            self.committed_zxid = entry.zxid
            changes.append((entry.key, self.table[entry.key]))
        return changes

    # --- the log in memory ----------------------------------------------------------------------------------------

    def _begin_log(self, base_zxid: int, base_chain: int, entries: Iterable[Entry]) -> None:
        self._base_zxid, self._base_chain = base_zxid, base_chain
        self._log_bytes = 0
        self._entries: list[Entry] = []
        self._chains: list[int] = []
        self._extend(entries)

    def _extend(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._chains.append(chained(self.last_chain, entry))
            self._entries.append(entry)
            self._log_bytes += entry.size

    def _index_after(self, zxid: int) -> int:
        return bisect.bisect_right(self._entries, zxid, key=_zxid)


def last_epoch(content: LedgerContent) -> int:
    """The epoch of the last write in a directory."""
    return epoch_of(content.entries[-1].zxid if content.entries else content.base_zxid)


def _zxid(entry: Entry) -> int:
    return entry.zxid
