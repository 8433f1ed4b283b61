"""A copy of one service that is kept up to date by deltas. Pure. (Original: ``SessionDatumCacheService``, whose copies
expire after 5 s.)

A session server holds one copy for each watched service, a client one for each service and scope that it subscribes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from slotreeve.model.datum import NO_VERSION, with_change
from slotreeve.model.publisher import Publisher


class Delta(Protocol):
    """One step of a service from a version to a higher one: the common part of
    :class:`~slotreeve_protocol.slot_messages.DatumChange` and :class:`~slotreeve_protocol.client_messages.Push`.

    ``from_version`` 0: ``changed`` is the whole service. ``removed`` holds register ids. ``digest`` is the content
    digest of the service at ``version``.
    """

    @property
    def from_version(self) -> int:
        """The version that the step starts from."""

    @property
    def version(self) -> int:
        """The version that the step leads to."""

    @property
    def digest(self) -> int:
        """The content digest at ``version``."""

    @property
    def changed(self) -> Sequence[Publisher]:
        """The records that are new or changed, each of them whole."""

    @property
    def removed(self) -> Sequence[str]:
        """The register ids of the removed records."""


Step = dict[str, tuple[Publisher | None, Publisher | None]]
"""The changes of a delta by register id: the record before and after (None: there is none)."""


class Fit(Enum):
    """How a delta fits the copy."""

    STALE = 0
    """It is not newer than the copy and must be ignored (I11)."""
    NEXT = 1
    """It leads from the copy to a newer state."""
    GAP = 2
    """It starts from a version that the copy does not have. The whole service is needed."""


class DatumCopy:
    """All records of one service at one version.

    Invariant: ``version`` only rises, except that it falls to 0 when a delta has a wrong digest (I11). At
    ``version`` > 0 ``records`` is complete (I7) and ``digest`` is its content digest.

    Attributes:
        version: datum version of the copy; 0 if the copy may be wrong.
        digest: content digest of ``records``.
        records: the records by register id.
    """

    __slots__ = ("digest", "records", "version")

    def __init__(self) -> None:
        self.version = NO_VERSION
        self.digest = 0
        self.records: dict[str, Publisher] = {}

    def fit(self, delta: Delta) -> Fit:
        """How ``delta`` fits this copy.

        A delta holds every changed record whole. So a delta that starts before this copy's version and ends after it
        fits too.
        """
        if delta.version <= self.version:
            return Fit.STALE
        if delta.from_version == NO_VERSION or NO_VERSION < delta.from_version <= self.version:
            return Fit.NEXT
        return Fit.GAP

    def apply(self, delta: Delta) -> Step | None:
        """Apply a delta that fits (:attr:`Fit.NEXT`); return the changes.

        Returns None if the result does not have the delta's digest. Then nothing is applied, ``version`` is 0, and the
        whole service is needed.
        """
        records, digest = self.records, self.digest
        step: Step = {}
        for record in delta.changed:
            register_id = record.register_id
            old = records.get(register_id)
            if old is None or old.data != record.data or old.zone != record.zone:
                records[register_id] = record
                step[register_id] = old, record
                digest = with_change(digest, old, record)
        if delta.removed or delta.from_version == NO_VERSION:
            for register_id in self._removed(delta):
                old = records.pop(register_id)
                step[register_id] = old, None
                digest = with_change(digest, old, None)
        if digest != delta.digest:
            self._undo(step)
            self.version = NO_VERSION
            return None
        self.digest, self.version = digest, delta.version
        return step

    def forget_version(self) -> None:
        """Accept only a whole service from now on. The records stay readable."""
        self.version = NO_VERSION

    def _removed(self, delta: Delta) -> Sequence[str]:
        """The register ids that this copy has, and that the state after the delta has not."""
        if delta.from_version != NO_VERSION:
            return [register_id for register_id in delta.removed if register_id in self.records]
        kept = {record.register_id for record in delta.changed}
        return [register_id for register_id in self.records if register_id not in kept]

    def _undo(self, step: Step) -> None:
        for register_id, (old, _) in step.items():
            if old is None:
                del self.records[register_id]
            else:
                self.records[register_id] = old
