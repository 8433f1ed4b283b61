"""The records for which a session server had no room. Pure."""

from __future__ import annotations

from collections import OrderedDict

from slotreeve_client.publication import Publication

FEWEST = 16
"""So many records are sent again after each pause at least, if so many wait."""
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0


class Postponed:
    """Records that are sent again after a pause: twice as many as were acknowledged since the last pause, and
    :data:`FEWEST` at least. So a session server that takes few is sent few. The pause doubles with each retry, up to
    :data:`LONGEST_PAUSE_SECONDS`, until a record is acknowledged.

    Attributes:
        records: the records that wait, by register id.
        rejections: number of records for which a session server had no room, since the start.
    """

    def __init__(self) -> None:
        self.records: OrderedDict[str, Publication] = OrderedDict()
        self.rejections = 0
        self._acknowledged = 0
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def add(self, publication: Publication) -> None:
        """The session server has no room for this record now."""
        self.rejections += 1
        self.records[publication.register_id] = publication

    def take(self) -> dict[str, Publication]:
        """The pause is over: the records to send again now, those that have waited for the longest."""
        count = min(len(self.records), max(FEWEST, 2 * self._acknowledged))
        self._acknowledged = 0
        return dict([self.records.popitem(last=False) for _ in range(count)])

    def next_pause(self) -> float:
        """Seconds to wait before the next :meth:`take`."""
        pause = self._pause_seconds
        self._pause_seconds = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return pause

    def has_room(self, count: int) -> None:
        """The session server has acknowledged so many records: begin with a short pause next time."""
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._acknowledged += count
