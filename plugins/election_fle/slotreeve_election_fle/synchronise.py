"""What a follower lacks of the leader's history, in messages of bounded size, and how the follower takes it over. Pure.

docs/fle.md, section 6.1, step 5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
from slotreeve.errors import ElectionError

from slotreeve_election_fle.effects import DiskWrite
from slotreeve_election_fle.entries import Changes, Entry, Item, items_of
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.messages import NewLeader, SyncPart

PART_BYTES = 64 * 1024
"""The size of a part, roughly; a larger value travels in several."""
WINDOW = 4
"""Parts that may be under way to one follower."""
_Sized = TypeVar("_Sized", Entry, Item)


class NotMyHistory(Exception):
    """The entries that were sent do not continue this history; the entire state is needed."""


class HistoryTransfer:
    """The leader's history on its way to one follower: parts, and then NewLeader.

    At most :data:`WINDOW` parts are under way, so that heartbeats on the same connection do not wait behind a large
    state. (A follower of an older version, which does not report its progress, is sent all parts at once.)
    """

    def __init__(self, ledger: Ledger, attempt: int, epoch: int, follower_zxid: int | None, paced: bool) -> None:
        """``follower_zxid``: where the follower's log ends; None: it is to be sent the entire state.

        What the follower has beyond the common part was proposed by an old leader and never acknowledged; it is rolled
        back. Where the leader's log does not reach back far enough, everything is sent.
        """
        self._ledger, self._attempt, self._epoch, self._paced = ledger, attempt, epoch, paced
        common = None if follower_zxid is None else ledger.point_before(follower_zxid)
        self._is_whole = common is None
        self._base = ledger.committed_zxid if common is None else common
        chain = ledger.chain_at(self._base)
        assert chain is not None  # both the committed entry and the one that point_before names are in this log
        self._base_chain = chain
        self._items: deque[Item] = deque(items_of(ledger.table) if self._is_whole else ())
        self._entries: deque[Entry] = deque(ledger.entries_after(self._base))
        self._sent = self._arrived = 0
        self._offset = 0  # in the value of the first one, where that one does not fit into a part

    def extend(self, entries: Iterable[Entry]) -> None:
        """The leader has logged more."""
        self._entries.extend(entries)

    def arrived(self, number: int) -> None:
        """The follower has reported the part of this number."""
        self._arrived = max(self._arrived, min(number, self._sent))

    @property
    def is_complete(self) -> bool:
        """No part is left to be sent; NewLeader may follow."""
        return not self._items and not self._entries

    def next_part(self) -> SyncPart | None:
        """The next part; None while enough of them are under way, or where none is left."""
        if self.is_complete or (self._paced and self._sent - self._arrived >= WINDOW):
            return None
        continues = self._offset > 0
        self._sent += 1
        items = self._taken(self._items)
        entries = [] if items else self._taken(self._entries)
        return SyncPart(self._attempt, self._epoch, items, entries, self._sent if self._paced else 0, continues)

    def end(self) -> NewLeader:
        """What follows the last part."""
        assert self.is_complete
        last, last_chain = self._ledger.last_zxid, self._ledger.last_chain
        return NewLeader(self._attempt, self._epoch, self._is_whole, self._base, self._base_chain, last, last_chain)

    def _taken(self, things: deque[_Sized]) -> list[_Sized]:
        """As many of ``things`` as fit into a part, or a piece of the first one if that is larger."""
        if things and self._paced and things[0].size > PART_BYTES:
            return [self._piece(things)]
        taken: list[_Sized] = []
        size = 0
        while things:
            size += things[0].size
            if taken and size > PART_BYTES:
                break
            taken.append(things.popleft())
        return taken

    def _piece(self, things: deque[_Sized]) -> _Sized:
        first, begin = things[0], self._offset
        self._offset += PART_BYTES
        if self._offset >= len(first.value):
            things.popleft()
            self._offset = 0
        return msgspec.structs.replace(first, value=first.value[begin : begin + PART_BYTES])


def take_over(ledger: Ledger, parts: Iterable[SyncPart], end: NewLeader) -> tuple[Sequence[DiskWrite], Changes]:
    """Make the leader's history the follower's own.

    Returns:
        The effects that make it durable, and the keys whose committed value changed by it.

    Raises:
        NotMyHistory: ``end.base_zxid`` is not in this log, or with another history before it.
        ElectionError: the result is not the leader's history, or would roll back a committed entry.
    """
    items, entries = _joined(parts)
    writes: Sequence[DiskWrite]
    changes: Changes = []
    mark = ledger.take_over_from(end.last_zxid)
    if end.whole:
        writes, changes = ledger.install(end.base_zxid, end.base_chain, items, entries)
    elif ledger.chain_at(end.base_zxid) != end.base_chain:
        raise NotMyHistory
    else:
        writes = ledger.keep_and_append(end.base_zxid, entries)
    if (ledger.last_zxid, ledger.last_chain) != (end.last_zxid, end.last_chain):
        raise ElectionError(
            f"the history received ends with {ledger.last_zxid:#x} ({ledger.last_chain:08x}), "
            f"the leader's with {end.last_zxid:#x} ({end.last_chain:08x})"
        )
    return [*mark, *writes], changes


def _joined(parts: Iterable[SyncPart]) -> tuple[list[Item], list[Entry]]:
    items: list[Item] = []
    entries: list[Entry] = []
    for part in parts:
        if part.continues:
            _lengthen(items, part.items)
            _lengthen(entries, part.entries)
        else:
            items.extend(part.items)
            entries.extend(part.entries)
    return items, entries


def _lengthen(things: list[_Sized], pieces: Sequence[_Sized]) -> None:
    """Add a piece to the value of the last one."""
    for piece in pieces:
        if not things:
            raise ElectionError("the history received begins with the second piece of a value")
        things[-1] = msgspec.structs.replace(things[-1], value=things[-1].value + piece.value)
