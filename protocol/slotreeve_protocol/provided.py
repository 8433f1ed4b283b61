"""Digest of the provided configuration, by which two servers find out whether they have the same."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b


def config_digest(versions: Mapping[str, int]) -> int:
    """Digest of keys with their versions, 64 bits. The order of the keys does not matter."""
    total = 0
    for key, version in versions.items():
        total += int.from_bytes(blake2b(f"{key}\0{version}".encode(), digest_size=8).digest(), "little")
    return total & 0xFFFF_FFFF_FFFF_FFFF
