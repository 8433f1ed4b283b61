"""The replicated history: entries, the table they lead to, and the running checksum by which histories are compared."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import msgspec
from slotreeve.ports import Versioned

from slotreeve_election_fle.vote import epoch_of

Changes = list[tuple[str, Versioned]]
"""Keys and what they now hold, in the order of the changes."""

_encode = msgspec.msgpack.Encoder().encode


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One write, numbered by the leader that took it.

    Attributes:
        zxid: (epoch << 32 | counter); its epoch is the term of the write.
        version: the version that ``key`` has after it.
    """

    zxid: int
    key: str
    value: bytes
    version: int

    @property
    def size(self) -> int:
        """Bytes, roughly."""
        return len(self.key) + len(self.value) + 32

    def outcome(self) -> Versioned:
        """What the key holds after it."""
        return Versioned(self.value, self.version, epoch_of(self.zxid))


class Item(msgspec.Struct, array_like=True, frozen=True):
    """One key of a table, as it stands in a snapshot."""

    key: str
    value: bytes
    version: int
    term: int

    @property
    def size(self) -> int:
        """Bytes, roughly."""
        return len(self.key) + len(self.value) + 32


def chained(chain: int, entry: Entry) -> int:
    """The checksum of a history that ends with ``entry``, from that of the history before it."""
    return zlib.crc32(_encode(entry), chain)


def items_of(table: dict[str, Versioned]) -> list[Item]:
    """A table as snapshot items, sorted by key."""
    return [Item(key, held.value, held.version, held.term) for key, held in sorted(table.items())]


def table_of(items: Iterable[Item]) -> dict[str, Versioned]:
    """Snapshot items as a table."""
    return {item.key: Versioned(item.value, item.version, item.term) for item in items}
