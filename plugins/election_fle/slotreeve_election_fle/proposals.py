"""The leader's writes until they are committed: numbered, collected in batches, answered. Pure.

At most one batch is under way; what is asked meanwhile waits and then shares one sync on every disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from slotreeve.errors import ElectionError, NotLeader, VersionConflict

from slotreeve_election_fle.effects import NotWritten, Written
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.events import WriteAsked
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.vote import COUNTER_MASK, epoch_of, make_zxid

BATCH_BYTES = 1024 * 1024
"""A batch is not lengthened beyond this."""
BATCH_ENTRIES = 2_000
"""Nor beyond this: a batch of many small entries takes a server tens of milliseconds, and heartbeats wait for it."""
LARGEST_VALUE = 8 * 1024 * 1024
"""Bytes of one value; must fit into one frame of any transport."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    token: int
    entry: Entry


class Proposals:
    """Writes of one term that are not committed yet, in order."""

    def __init__(self, ledger: Ledger, epoch: int) -> None:
        self._ledger = ledger
        self._epoch = epoch
        self._queue: deque[_Waiting] = deque()
        self._newest: dict[str, Entry] = {}  # of the keys that a write under way changes
        self._conflicts: list[tuple[int, NotWritten]] = []  # with the zxid of the write that each conflicts with
        self._batch: list[_Waiting] = []
        last = ledger.last_zxid
        self._counter = last & COUNTER_MASK if epoch_of(last) == epoch else 0

    @property
    def is_ready(self) -> bool:
        """Writes wait and no batch is under way: :meth:`take_batch` may be called."""
        return bool(self._queue) and not self._batch

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is under way."""
        return not self._queue and not self._batch

    def ask(self, write: WriteAsked) -> NotWritten | None:
        """Queue a write, numbered after all earlier ones; the refusal, if it cannot be taken.

        A conflict with a write under way is answered when that one is committed: until then it may still be lost, and
        the version that the writer expected would be the stored one.
        """
        if len(write.value) > LARGEST_VALUE:
            error = ElectionError(f"the value of {write.key!r} has {len(write.value)} bytes; at most {LARGEST_VALUE}")
            return NotWritten(write.token, error)
        version = self._version(write.key)
        if write.expected_version is not None and write.expected_version != version:
            text = f"{write.key!r} has version {version}, not the expected {write.expected_version}"
            conflict = NotWritten(write.token, VersionConflict(text))
            if (under_way := self._newest.get(write.key)) is None:
                return conflict
            self._conflicts.append((under_way.zxid, conflict))
            return None
        if self._counter == COUNTER_MASK:
            return NotWritten(write.token, NotLeader("this term has used up its numbers; resign for a new one"))
        self._counter += 1
        entry = Entry(make_zxid(self._epoch, self._counter), write.key, write.value, version + 1)
        self._queue.append(_Waiting(write.token, entry))
        self._newest[write.key] = entry
        return None

    def take_batch(self) -> list[Entry]:
        """Start the next batch; its entries, to be sent to the followers and logged."""
        self._batch, size = [], 0
        while self._queue and len(self._batch) < BATCH_ENTRIES:
            size += self._queue[0].entry.size
            if self._batch and size > BATCH_BYTES:
                break
            self._batch.append(self._queue.popleft())
        return [waiting.entry for waiting in self._batch]

    def committed(self) -> Sequence[Written | NotWritten]:
        """Everything up to the ledger's committed entry is sure; the answers that are due by it."""
        zxid = self._ledger.committed_zxid
        done = [w for w in self._batch if w.entry.zxid <= zxid]
        self._batch = self._batch[len(done) :]
        for waiting in done:
            if self._newest.get(waiting.entry.key) is waiting.entry:
                del self._newest[waiting.entry.key]  # the ledger's table has it now
        answers: list[Written | NotWritten] = [Written(waiting.token, waiting.entry.version) for waiting in done]
        if self._conflicts:
            answers += [conflict for conflicting, conflict in self._conflicts if conflicting <= zxid]
            self._conflicts = [each for each in self._conflicts if each[0] > zxid]
        return answers

    def abandon(self, cause: str) -> Sequence[NotWritten]:
        """The term is over; the answers to all writes that are not committed. Their outcome is not known."""
        tokens = [waiting.token for waiting in [*self._batch, *self._queue]]
        tokens += [conflict.token for _, conflict in self._conflicts]
        self._batch, self._queue, self._newest, self._conflicts = [], deque(), {}, []
        text = f"stopped leading term {self._epoch} ({cause}) before the write was sure; it may or may not be stored"
        return [NotWritten(token, NotLeader(text)) for token in tokens]

    def _version(self, key: str) -> int:
        """The version of ``key`` once every write under way has been stored."""
        under_way = self._newest.get(key)
        if under_way is not None:
            return under_way.version
        held = self._ledger.table.get(key)
        return 0 if held is None else held.version
