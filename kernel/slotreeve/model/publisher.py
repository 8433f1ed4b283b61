"""What a provider publishes, and which record of it is newer (original: ``Publisher``, ``RegisterVersion``).

Departure from the original: the second part of the order is the client's own count of its connections, not a
session server's clock (architecture, section 7; invariant I10).
"""

from __future__ import annotations

import msgspec

MAX_PAYLOAD_BYTES = 1 << 20
"""What one registration may publish at most, all boxes together: a registry is told where something is, not what."""


class Publisher(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One provider's registration of one service, or its tombstone.

    Attributes:
        register_id: the client's id for this registration, unique in the cluster.
        data_info_id: the service.
        version: how often the client has published or unpublished under this id, from 1.
        incarnation: the client's count of its connections when it sent this.
        session: process id of the session server that holds the client's connection.
        zone: where the provider runs; what scope ``zone`` filters by.
        data: the published boxes of bytes; None in a tombstone.
    """

    register_id: str
    data_info_id: str
    version: int
    incarnation: int
    session: str
    zone: str
    data: tuple[bytes, ...] | None

    @property
    def is_tombstone(self) -> bool:
        """True for the trace of a registration that ended."""
        return self.data is None

    def newer_than(self, other: Publisher) -> bool:
        """Strictly greater in (version, incarnation): the only way to replace a record (I10)."""
        return self.version > other.version if self.version != other.version else self.incarnation > other.incarnation

    @property
    def weight(self) -> int:
        """What the record adds to a message: 1, and 1 more for each 2 KiB published. Messages are cut by weight."""
        return 1 + (sum(map(len, self.data)) >> 11) if self.data is not None else 1

    def tombstone(self) -> Publisher:
        """The trace that this registration ended, at its own place in the order."""
        return Publisher(
            self.register_id, self.data_info_id, self.version, self.incarnation, self.session, self.zone, None
        )
