"""Where the meta state of an election back-end came from, and where it has gone: one key beside the rest. Pure.

A swap copies the meta state from one back-end to another. Then it writes into the old one, as the last write there,
which back-end is in use instead. That record is the fence: it decides which of the two is in force (decision 17).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec
from slotreeve.errors import StorageError
from slotreeve.model.text import UNDECODABLE

KEY = "swap"
"""The key of the record. It belongs to one back-end, and is not copied."""


class SwapRecord(msgspec.Struct, frozen=True):
    """The record of one back-end.

    Attributes:
        lineage: names the cluster's meta state, in each back-end that ever held it.
        generation: number of the swap that wrote this; 0 before the first, and while a copy is not complete.
        use: the back-end in use. Another one than that which holds the record: this one is fenced.
        came_from: the back-end that the state was copied from; empty for the first.
        is_confirmed: False between the copy and the fence: the back-end is in force only where the other one's fence
            says so.
        term: added to every term of this back-end, so that the cluster's terms only rise.
        versions: added to the versions of these keys, so that a key has the version that it had before.
    """

    lineage: str
    generation: int
    use: str
    came_from: str = ""
    is_confirmed: bool = True
    term: int = 0
    versions: Mapping[str, int] = {}

    def encode(self) -> bytes:
        """The bytes of the key."""
        return msgspec.msgpack.encode(self)


_decode = msgspec.msgpack.Decoder(SwapRecord).decode


def decode(value: bytes) -> SwapRecord:
    """The record in the bytes of the key. Raises StorageError."""
    try:
        return _decode(value)
    except UNDECODABLE as error:
        raise StorageError(f"the meta state's {KEY!r} cannot be read: {error}") from None


def digest(entries: Iterable[tuple[str, int, bytes]]) -> str:
    """SHA-256 of keys, versions and values: equal where two back-ends hold the same meta state."""
    return hashlib.sha256(msgspec.msgpack.encode(sorted(entries))).hexdigest()
