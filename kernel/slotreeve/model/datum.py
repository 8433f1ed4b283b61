"""Versions and digests of all that is published for one service (original: ``Datum``, ``DatumVersionUtil``).

Departure from the original: a version is (slot leader epoch, counter), packed in one integer, so that it rises
across every change of a slot's leader by construction and no clock takes part (invariant I11).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from slotreeve.model.publisher import Publisher

COUNTER_BITS = 32
NO_VERSION = 0
_DIGEST_MASK = (1 << 64) - 1


def first_version(leader_epoch: int) -> int:
    """The lowest datum version under a slot leader epoch; greater than every version of an earlier epoch."""
    return leader_epoch << COUNTER_BITS


def sync_digest(publishers: Iterable[Publisher]) -> int:
    """Digest of who holds which registration at which place in its order: what repair compares.

    The 64-bit sum of one hash a record, so that order does not matter. Two holders have equal digests exactly when
    (but for chance, 2^-64) they hold the same records at the same (version, incarnation).
    """
    total = 0
    for p in publishers:
        text = f"{p.register_id}\0{p.version}\0{p.incarnation}"
        total += int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
    return total & _DIGEST_MASK


def content_hash(publisher: Publisher) -> int:
    """64 bits that stand for what a subscriber sees of one record; what content digests add up."""
    hasher = blake2b(f"{publisher.register_id}\0{publisher.zone}".encode(), digest_size=8)
    for box in publisher.data or ():
        hasher.update(len(box).to_bytes(4, "little"))
        hasher.update(box)
    return int.from_bytes(hasher.digest(), "little")


def content_digest(publishers: Iterable[Publisher]) -> int:
    """Digest of what a subscriber sees of a set of records: order, versions and incarnations do not matter."""
    return sum(map(content_hash, publishers)) & _DIGEST_MASK


def with_change(digest: int, old: Publisher | None, new: Publisher | None) -> int:
    """A content digest after ``old`` left the set (None: nothing left) and ``new`` came in (None: nothing came)."""
    if old is not None:
        digest -= content_hash(old)
    if new is not None:
        digest += content_hash(new)
    return digest & _DIGEST_MASK
