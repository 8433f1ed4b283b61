"""The sync digest of records, hashed one by one, to compare running digests with."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.model.publisher import Publisher
from slotreeve_servers.node.digests import sync_hash


def sync_digest(records: Iterable[Publisher]) -> int:
    """The sum of the hashes of these records."""
    return sum(map(sync_hash, records)) & ((1 << 64) - 1)
