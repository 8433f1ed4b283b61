"""The record of one registration, and the order of its versions (original: ``Publisher``, ``RegisterVersion``).

In the original the second part of the order is a session server's clock. Here it is the client's count of its
connections, so that no clock decides which record is newer (invariant I10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

MAX_PAYLOAD_BYTES = 1 << 20
"""Largest payload of one registration, in bytes: a registry holds where a provider is, not its data."""
PART_BYTES = 5
"""Bytes that each further part of a payload takes beside its content, at most."""
MOST_PARTS = 1 + MAX_PAYLOAD_BYTES // PART_BYTES
"""Most parts of one payload. A record with more is refused before they are read."""
MAX_REGISTER_ID_LENGTH = 1_024
"""Longest register id, in characters."""
MAX_ZONE_LENGTH = 255
"""Longest name of a zone, in characters."""


def payload_bytes(data: Sequence[bytes]) -> int:
    """The size of a payload, with what a message needs for each part behind the first."""
    size = sum(map(len, data))
    return size if len(data) < 2 else size + PART_BYTES * (len(data) - 1)


class Publisher(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A provider's registration of one service, or the tombstone of one.

    Attributes:
        register_id: id of the registration, made by the client, unique in the cluster.
        data_info_id: the service.
        version: number of times the client has published or unpublished under this id, from 1.
        incarnation: number of connections that the client had made; of a lease its time to live in milliseconds.
        session: process id of the session server that holds the client's connection; ``lease`` of a lease.
        zone: where the provider runs; scope ``zone`` filters by it.
        data: the payload: the byte strings that the provider published; None in a tombstone.
    """

    register_id: str
    data_info_id: str
    version: int
    incarnation: int
    session: str
    zone: str
    data: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=MOST_PARTS)] | None

    @property
    def is_tombstone(self) -> bool:
        """True if the registration has ended."""
        return self.data is None

    def newer_than(self, other: Publisher) -> bool:
        """Greater than ``other`` in (version, incarnation). Only such a record may replace ``other`` (I10)."""
        return self.version > other.version if self.version != other.version else self.incarnation > other.incarnation

    @property
    def weight(self) -> int:
        """1, and 1 more for each 2 KiB of payload. The size of a message is bounded by the weight of its records."""
        data = self.data
        if data is None:
            return 1
        return 1 + ((len(data[0]) if len(data) == 1 else payload_bytes(data)) >> 11)

    def tombstone(self) -> Publisher:
        """The tombstone of this registration, of the same version and incarnation."""
        return Publisher(
            self.register_id, self.data_info_id, self.version, self.incarnation, self.session, self.zone, None
        )
