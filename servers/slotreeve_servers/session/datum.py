"""One session server's copy of one service (original: ``SessionDatumCacheService``, which forgets after 5 s). Pure."""

from __future__ import annotations

from enum import Enum

from slotreeve.model.datum import NO_VERSION, with_change
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.slot_messages import DatumChange


class ChangeVerdict(Enum):
    """What a change event is to this copy."""

    STALE = 0
    """Not newer than what is here (I11): ignore it."""
    NEXT = 1
    """It leads from here to a newer state."""
    GAP = 2
    """It leads from a state that is not here: everything must be asked for."""


class DatumView:
    """All records of one service as the slot leader last told.

    Invariant: ``version`` only rises; at ``version`` > 0 ``records`` is complete and ``digest`` its content digest.
    """

    __slots__ = ("digest", "records", "version")

    def __init__(self) -> None:
        self.version = NO_VERSION
        self.digest = 0
        self.records: dict[str, Publisher] = {}

    def judge(self, change: DatumChange) -> ChangeVerdict:
        """Whether ``change`` can be applied.

        A delta carries the whole of each record it touches, so one from before this version to after it fits too.
        """
        if change.version <= self.version:
            return ChangeVerdict.STALE
        if change.from_version == NO_VERSION or NO_VERSION < change.from_version <= self.version:
            return ChangeVerdict.NEXT
        return ChangeVerdict.GAP

    def apply(self, change: DatumChange) -> dict[str, Publisher | None] | None:
        """Go to ``change.version``; returns what differs now (None: the record went away).

        Returns None if the result's digest is not the one announced: then everything must be asked for, and this
        copy holds no version any more.
        """
        if change.from_version == NO_VERSION:
            return self._replace(change)
        step: dict[str, Publisher | None] = {}
        for record in change.changed:
            old = self.records.get(record.register_id)
            if old != record:
                self.digest = with_change(self.digest, old, record)
                self.records[record.register_id] = step[record.register_id] = record
        for register_id in change.removed:
            gone = self.records.pop(register_id, None)
            if gone is not None:
                self.digest = with_change(self.digest, gone, None)
                step[register_id] = None
        if self.digest != change.digest:
            self.version = NO_VERSION
            return None
        self.version = change.version
        return step

    def _replace(self, change: DatumChange) -> dict[str, Publisher | None]:
        new = {record.register_id: record for record in change.changed}
        step: dict[str, Publisher | None] = {
            register_id: record
            for register_id, record in new.items()
            if (old := self.records.get(register_id)) is None or old.data != record.data or old.zone != record.zone
        }
        step.update(dict.fromkeys(self.records.keys() - new.keys()))
        self.records, self.digest, self.version = new, change.digest, change.version
        return step
