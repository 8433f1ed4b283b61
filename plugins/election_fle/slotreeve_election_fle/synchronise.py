"""What a follower lacks of the leader's history, in messages of bounded size, and how the follower takes it over. Pure.

docs/fle.md, section 6.1, step 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from slotreeve.errors import ElectionError

from slotreeve_election_fle.effects import DiskWrite
from slotreeve_election_fle.entries import Changes, Entry, Item, items_of
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.messages import NewLeader, SyncPart

PART_BYTES = 1024 * 1024
"""The size of a part, roughly; a single larger value travels alone."""
_Sized = TypeVar("_Sized", Entry, Item)


class NotMyHistory(Exception):
    """The entries that were sent do not continue this history; the entire state is needed."""


def difference(ledger: Ledger, attempt: int, epoch: int, follower_zxid: int) -> list[SyncPart | NewLeader]:
    """The messages that bring a follower whose log ends with ``follower_zxid`` up to the leader's last entry.

    What the follower has beyond the common part was proposed by an old leader and never acknowledged; it is rolled
    back. Where the leader's log does not reach back far enough, everything is sent.
    """
    common = ledger.point_before(follower_zxid)
    if common is None:
        return whole(ledger, attempt, epoch)
    chain = ledger.chain_at(common)
    assert chain is not None  # point_before names an entry of this log
    return [
        *_entry_parts(attempt, epoch, ledger.entries_after(common)),
        NewLeader(attempt, epoch, False, common, chain, ledger.last_zxid, ledger.last_chain),
    ]


def whole(ledger: Ledger, attempt: int, epoch: int) -> list[SyncPart | NewLeader]:
    """The messages that carry the leader's committed table and every entry after it."""
    base = ledger.committed_zxid
    chain = ledger.chain_at(base)
    assert chain is not None  # the log starts with the last snapshot, which is committed
    return [
        *(SyncPart(attempt, epoch, items, []) for items in _parts(items_of(ledger.table))),
        *_entry_parts(attempt, epoch, ledger.entries_after(base)),
        NewLeader(attempt, epoch, True, base, chain, ledger.last_zxid, ledger.last_chain),
    ]


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
    return writes, changes


def _joined(parts: Iterable[SyncPart]) -> tuple[list[Item], list[Entry]]:
    items: list[Item] = []
    entries: list[Entry] = []
    for part in parts:
        items.extend(part.items)
        entries.extend(part.entries)
    return items, entries


def _entry_parts(attempt: int, epoch: int, entries: Sequence[Entry]) -> list[SyncPart]:
    return [SyncPart(attempt, epoch, [], part) for part in _parts(entries)]


def _parts(things: Sequence[_Sized]) -> Iterator[list[_Sized]]:
    part: list[_Sized] = []
    size = 0
    for thing in things:
        if part and size + thing.size > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(thing)
        size += thing.size
    if part:
        yield part
