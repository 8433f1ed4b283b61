"""The provided configuration: what a key may be, and the digest by which two servers find out whether they have the
same entries."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from slotreeve.errors import ModelError
from slotreeve.model.text import check_text

MAX_KEY_LENGTH = 512
"""Longest key, in characters."""


def check_config_key(key: str) -> None:
    """Check a key of the provided configuration.

    Raises:
        ModelError: it is blank, too long, or cannot be encoded.
    """
    check_text("the configuration key", key, MAX_KEY_LENGTH)
    if not key or key.isspace():
        raise ModelError(f"the configuration key {key!r} is blank; it needs 1 to {MAX_KEY_LENGTH} characters")


def config_digest(versions: Mapping[str, int]) -> int:
    """Digest of keys with their versions, 64 bits. The order of the keys does not matter."""
    total = 0
    for key, version in versions.items():
        total += int.from_bytes(blake2b(f"{key}\0{version}".encode(), digest_size=8).digest(), "little")
    return total & 0xFFFF_FFFF_FFFF_FFFF
