"""Leases: registrations that a slot's leader keeps for whoever renews them, and no connection holds.

See docs/decisions/0024-leases-that-no-connection-holds.md.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from slotreeve.errors import ModelError
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES, MAX_ZONE_LENGTH, Publisher, payload_bytes
from slotreeve.model.text import check_text

LEASE_OWNER = "lease"
"""What the record of a lease names in the place of a session process. No process id is like it: each contains a
random number."""
SHORTEST_TTL_SECONDS = 1.0
LONGEST_TTL_SECONDS = 86_400.0
SUFFIX_BYTES = 16
LONGEST_LEASE_ID = 512
"""In characters."""
MOST_LEASES = 5_000
"""Leases that a client sends in one request, at most: a slot's leader carries it out in one go."""


def is_lease(record: Publisher) -> bool:
    """Whether the record is a lease, or the tombstone of one."""
    return record.session == LEASE_OWNER


@lru_cache(maxsize=1 << 12)
def lease_suffix(data_info_id: str) -> str:
    """What follows the lease id in a register id. It depends on the service, so that the same lease id may be used in
    several services. Nobody finds another service with the same suffix: whoever may register that one could end the
    leases of this one by it."""
    return f"-{hashlib.blake2b(data_info_id.encode(), digest_size=SUFFIX_BYTES).hexdigest()}"


def lease_id_of(register_id: str) -> str:
    """The lease id in the register id of a lease."""
    return register_id.rpartition("-")[0]


def lease_record(
    lease_id: str, data_info_id: str, version: int, ttl_ms: int, zone: str, data: tuple[bytes, ...] | None
) -> Publisher:
    """The record of a lease; ``data`` None: its tombstone.

    A lease has no connections that could be counted. Its time to live, in milliseconds, stands in the place of their
    number, so that it goes wherever the record goes, and no other record is longer for it. The order of records never
    depends on it: the leader gives each registration of a lease a greater version.
    """
    register_id = lease_id + lease_suffix(data_info_id)
    return Publisher(register_id, data_info_id, version, ttl_ms, LEASE_OWNER, zone, data)


def ttl_seconds_of(record: Publisher) -> float:
    """The time to live of a lease."""
    return record.incarnation / 1000


def check_lease_id(lease_id: str) -> None:
    """Check a lease id.

    Raises:
        ModelError: it is empty, too long, or cannot be encoded.
    """
    check_text("lease id", lease_id, LONGEST_LEASE_ID)
    if not lease_id:
        raise ModelError(f"a lease id is empty; 1 to {LONGEST_LEASE_ID} characters are good")


def check_lease(lease_id: str, ttl_seconds: float, data: tuple[bytes, ...], zone: str) -> None:
    """Check what somebody wants to register.

    Raises:
        ModelError: the lease id, the zone, the time to live or the size of the payload is out of bounds; the message
            says which.
    """
    check_lease_id(lease_id)
    check_text("the zone", zone, MAX_ZONE_LENGTH)
    if type(ttl_seconds) not in (int, float) or not SHORTEST_TTL_SECONDS <= ttl_seconds <= LONGEST_TTL_SECONDS:
        raise ModelError(
            f"the time to live of lease {lease_id!r} is {ttl_seconds!r} s; it must be a number from "
            f"{SHORTEST_TTL_SECONDS:g} to {LONGEST_TTL_SECONDS:g}"
        )
    size = payload_bytes(data)
    if size > MAX_PAYLOAD_BYTES:
        raise ModelError(f"{size} bytes are too many for lease {lease_id!r}; {MAX_PAYLOAD_BYTES} is the limit")
