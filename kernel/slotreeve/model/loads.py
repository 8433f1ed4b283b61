"""The load of a slot, as its leader counts it."""

from __future__ import annotations

from typing import Final

import msgspec

NEAR_SHARE: Final = 0.1
"""Part by which a figure of a load may change before the change is noticeable."""
NEAR_RECORDS, NEAR_BYTES, NEAR_WRITES = 4, 1_024, 0.2
"""Change of records, bytes and writes a second that is not noticeable either, in slots of little load."""


class SlotLoad(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What one slot holds and takes.

    Attributes:
        records: live registrations.
        bytes: bytes of their payloads.
        writes_per_second: registrations, repetitions of them and ends of them that the leader stores, on average of the
            last half minute.
    """

    records: int = 0
    bytes: int = 0
    writes_per_second: float = 0.0

    def is_near(self, other: SlotLoad) -> bool:
        """Whether no figure differs noticeably from that of ``other``."""
        return (
            _is_near(self.records, other.records, NEAR_RECORDS)
            and _is_near(self.bytes, other.bytes, NEAR_BYTES)
            and _is_near(self.writes_per_second, other.writes_per_second, NEAR_WRITES)
        )


NO_LOAD: Final = SlotLoad()
"""The load of a slot of which nothing is known."""


def _is_near(one: float, other: float, least: float) -> bool:
    return abs(one - other) <= max(least, NEAR_SHARE * max(one, other))
