"""Versions and digests of a datum, which is all records of one service (original: ``Datum``, ``DatumVersionUtil``).

In the original a version comes from a clock. Here it is (slot leader epoch, counter), packed in one integer, so that it
rises across every change of the slot's leader (invariant I11).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from slotreeve.model.publisher import Publisher

COUNTER_BITS = 32
NO_VERSION = 0
DIGEST_MASK = (1 << 64) - 1


def first_version(leader_epoch: int) -> int:
    """The lowest datum version under a slot leader epoch. It is greater than every version of an earlier epoch."""
    return leader_epoch << COUNTER_BITS


def content_hash(publisher: Publisher) -> int:
    """Hash of what a subscriber sees of one record, 64 bits. A content digest is the sum of them."""
    hasher = blake2b(f"{publisher.register_id}\0{publisher.zone}".encode(), digest_size=8)
    for part in publisher.data or ():
        hasher.update(len(part).to_bytes(4, "little"))
        hasher.update(part)
    return int.from_bytes(hasher.digest(), "little")


def content_digest(publishers: Iterable[Publisher]) -> int:
    """Digest of what a subscriber sees of records: their order, versions and incarnations do not matter."""
    return sum(map(content_hash, publishers)) & DIGEST_MASK


def with_change(digest: int, old: Publisher | None, new: Publisher | None) -> int:
    """The content digest after ``old`` is removed (None: nothing is) and ``new`` is added (None: nothing is)."""
    if old is not None:
        digest -= content_hash(old)
    if new is not None:
        digest += content_hash(new)
    return digest & DIGEST_MASK
