"""The records for which a session server had no room. Pure."""

from __future__ import annotations

from slotreeve_client.publication import Publication

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0


class Postponed:
    """Records that are sent again after a pause. The pause doubles with each retry, up to
    :data:`LONGEST_PAUSE_SECONDS`, until a record is acknowledged.

    Attributes:
        records: the records that wait, by register id.
        rejections: number of records for which a session server had no room, since the start.
    """

    def __init__(self) -> None:
        self.records: dict[str, Publication] = {}
        self.rejections = 0
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def add(self, publication: Publication) -> None:
        """The session server has no room for this record now."""
        self.rejections += 1
        self.records[publication.register_id] = publication

    def take(self) -> dict[str, Publication]:
        """The pause is over: all records that wait."""
        records, self.records = self.records, {}
        return records

    def next_pause(self) -> float:
        """Seconds to wait before the next :meth:`take`."""
        pause = self._pause_seconds
        self._pause_seconds = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return pause

    def has_room(self) -> None:
        """The session server has acknowledged a record: begin with a short pause next time."""
        self._pause_seconds = FIRST_PAUSE_SECONDS
