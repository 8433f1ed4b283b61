"""A copy of one service that is kept up to date by deltas. Pure. (Original: ``SessionDatumCacheService``, whose copies
expire after 5 s.)

A session server holds one copy for each watched service, a client one for each service and scope that it subscribes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from slotreeve.model.datum import DIGEST_MASK, NO_VERSION, content_digest, content_hash
from slotreeve.model.publisher import Publisher


class Delta(Protocol):
    """One step of a service from a version to a higher one: the common part of
    :class:`~slotreeve_protocol.slot_messages.DatumChange` and :class:`~slotreeve_protocol.client_messages.Push`.

    ``from_version`` 0: ``changed`` is the whole service. ``removed`` holds register ids. ``digest`` is the content
    digest of the service at ``version``. A large delta comes in parts (``more``: this is not the last one).
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

    @property
    def more(self) -> bool:
        """Whether other parts of the same delta follow."""


Step = dict[str, tuple[Publisher | None, Publisher | None]]
"""The changes of a delta by register id: the record before and after (None: there is none)."""


class Fit(Enum):
    """How a delta fits the copy."""

    STALE = 0
    """It is not newer than the copy, or than what is gathered, and must be ignored (I11)."""
    NEXT = 1
    """It leads from the copy to a newer state."""
    GAP = 2
    """It starts from a version that the copy does not have. The whole service is needed."""
    PART = 3
    """It must be gathered: it is a part of a delta, or it goes on from a delta whose parts are still arriving."""


def _head(delta: Delta) -> tuple[int, int, int]:
    """What all parts of one delta have in common."""
    return delta.from_version, delta.version, delta.digest


def _looks_the_same(old: Publisher | None, new: Publisher) -> bool:
    """Whether subscribers see no difference between two records."""
    return old is not None and old.data == new.data and old.zone == new.zone


class ContentSums:
    """Content digests of changing records: of all of them, and of those in one zone.

    Attributes:
        zone: the zone; None: ``in_zone`` is of no record.
        digest: of all records. ``in_zone``: of those in the zone.
    """

    __slots__ = ("digest", "in_zone", "zone")

    def __init__(self, zone: str | None, digest: int = 0, in_zone: int = 0) -> None:
        self.zone, self.digest, self.in_zone = zone, digest, in_zone

    def move(self, old: Publisher | None, new: Publisher | None) -> None:
        """A record has changed; None: there is none."""
        if new is not None:
            value = content_hash(new)
            self.digest = (self.digest + value) & DIGEST_MASK
            if new.zone == self.zone:
                self.in_zone = (self.in_zone + value) & DIGEST_MASK
        if old is not None:
            value = content_hash(old)
            self.digest = (self.digest - value) & DIGEST_MASK
            if old.zone == self.zone:
                self.in_zone = (self.in_zone - value) & DIGEST_MASK


class GatheredParts:
    """The parts of one delta that have arrived, and the deltas that go on from it. What they change is worked out as
    they arrive, because to do that at once for a large service takes long.

    Attributes:
        first: the first part.
        changed: the changed records of all parts by register id. ``removed``: the removed register ids.
        sums: digests of the copy after the parts; for a whole service, of ``changed``.
        step: how the copy will change, without the records that a whole service lacks.
        count: number of parts.
        later: deltas that go on from the gathered one, or parts of them, in order.
    """

    __slots__ = ("_base", "changed", "count", "first", "later", "removed", "step", "sums")

    def __init__(self, first: Delta, base: dict[str, Publisher], sums: ContentSums) -> None:
        self.first = first
        self._base, self.sums = base, sums
        self.changed: dict[str, Publisher] = {}
        self.removed: dict[str, None] = {}
        self.step: Step = {}
        self.count = 0
        self.later: list[Delta] = []

    @property
    def is_whole(self) -> bool:
        """Whether the parts are the whole service."""
        return self.first.from_version == NO_VERSION

    def has_part(self, delta: Delta) -> bool:
        """Whether ``delta`` is a part of the gathered delta."""
        return _head(delta) == _head(self.first)

    @property
    def end(self) -> int:
        """The version after the gathered deltas."""
        return self.later[-1].version if self.later else self.first.version

    def goes_on_with(self, delta: Delta) -> bool:
        """Whether ``delta``, or the delta that it is a part of, leads from the state after the gathered deltas to a
        later one."""
        if self.later and self.later[-1].more:
            return _head(delta) == _head(self.later[-1])
        return NO_VERSION < delta.from_version <= self.end < delta.version

    def add(self, delta: Delta) -> None:
        """Take in a part, or the changes of a later delta."""
        for record in delta.changed:
            register_id = record.register_id
            before = self._present(register_id)
            self.changed[register_id] = record
            self.removed.pop(register_id, None)
            if not _looks_the_same(before, record):
                self.sums.move(before, record)
                self._note(register_id, record)
            elif self.is_whole:
                self._note(register_id, record)
        for register_id in delta.removed:
            self.sums.move(self._present(register_id), None)
            self.changed.pop(register_id, None)
            self.removed[register_id] = None
            self._note(register_id, None)

    def copy_moved(self, step: Step) -> None:
        """The copy that the parts will change has changed meanwhile, by ``step``."""
        for register_id, (old, new) in step.items():
            if register_id in self.changed or register_id in self.removed:
                self._note(register_id, self.changed.get(register_id))
            elif not self.is_whole:
                self.sums.move(old, new)

    def _present(self, register_id: str) -> Publisher | None:
        """The record after the parts that have arrived."""
        record = self.changed.get(register_id)
        if record is not None or self.is_whole or register_id in self.removed:
            return record
        return self._base.get(register_id)

    def _note(self, register_id: str, new: Publisher | None) -> None:
        old = self._base.get(register_id)
        if old is None if new is None else _looks_the_same(old, new):
            self.step.pop(register_id, None)
        else:
            self.step[register_id] = old, new


class DatumCopy:
    """All records of one service at one version.

    Invariant: ``version`` only rises, except that it falls to 0 when a delta has a wrong digest (I11). At
    ``version`` > 0 ``records`` is complete (I7) and ``digest`` is its content digest.

    Args:
        zone: a digest is kept of the records of this zone too.

    Attributes:
        version: datum version of the copy; 0 if the copy may be wrong.
        sums: content digests of ``records``.
        records: the records by register id.
    """

    __slots__ = ("_gathered", "records", "sums", "version")

    def __init__(self, zone: str | None = None) -> None:
        self.version = NO_VERSION
        self.sums = ContentSums(zone)
        self.records: dict[str, Publisher] = {}
        self._gathered: GatheredParts | None = None

    @property
    def digest(self) -> int:
        """Content digest of ``records``."""
        return self.sums.digest

    @property
    def parts(self) -> int:
        """Number of parts that were gathered of a delta whose last part has not arrived yet."""
        return self._gathered.count if self._gathered is not None else 0

    def fit(self, delta: Delta) -> Fit:
        """How ``delta`` fits this copy.

        A delta holds every changed record whole. So a delta that starts before this copy's version and ends after it
        fits too.
        """
        if delta.version <= self.version:
            return Fit.STALE
        if delta.more:
            return Fit.PART
        if delta.from_version == NO_VERSION or NO_VERSION < delta.from_version <= self.version:
            return Fit.NEXT
        gathered = self._gathered
        if gathered is None or gathered.has_part(delta):
            return Fit.GAP
        if gathered.goes_on_with(delta):
            return Fit.PART
        return Fit.STALE if delta.version <= gathered.end else Fit.GAP

    def gather(self, delta: Delta) -> None:
        """Keep a delta of :attr:`Fit.PART` until the last part arrives. A part of another delta, which does not go on
        from the gathered one, takes its place."""
        gathered = self._gathered
        if gathered is not None and gathered.goes_on_with(delta):
            gathered.later.append(delta)
            return
        if gathered is None or not gathered.has_part(delta):
            gathered = self._gathered = self._gathering(delta)
        gathered.add(delta)
        gathered.count += 1

    def apply(self, delta: Delta) -> Step | None:
        """Apply a delta that fits (:attr:`Fit.NEXT`), with its gathered parts and what goes on from it; return the
        changes.

        Returns None if the result does not have the delta's digest. Then nothing is applied, ``version`` is 0, and the
        whole service is needed.
        """
        gathered = self._gathered
        if gathered is None:
            return self._apply(delta)
        if gathered.has_part(delta):
            self._gathered = None
            unfinished: list[Delta] = []
            while gathered.later and gathered.later[-1].more:
                unfinished.append(gathered.later.pop())
            step = self._apply_gathered(gathered, delta)
            for part in reversed(unfinished):
                self.gather(part)
            return step
        if delta.version >= gathered.end:
            self._gathered = None
        step = self._apply(delta)
        if step and self._gathered is not None:
            self._gathered.copy_moved(step)
        return step

    def _gathering(self, first: Delta) -> GatheredParts:
        sums = self.sums
        if first.from_version == NO_VERSION:
            return GatheredParts(first, self.records, ContentSums(sums.zone))
        return GatheredParts(first, self.records, ContentSums(sums.zone, sums.digest, sums.in_zone))

    def _apply_gathered(self, gathered: GatheredParts, last: Delta) -> Step | None:
        for delta in (last, *gathered.later):
            gathered.add(delta)
        end = gathered.later[-1] if gathered.later else last
        if gathered.sums.digest != end.digest:
            self.version = NO_VERSION
            return None
        step, records = gathered.step, self.records
        if gathered.is_whole:
            for register_id in records.keys() - gathered.changed.keys():
                step[register_id] = records[register_id], None
            self.records = gathered.changed
        else:
            for register_id, (_, new) in step.items():
                if new is None:
                    del records[register_id]
                else:
                    records[register_id] = new
        self.sums, self.version = gathered.sums, end.version
        return step

    def _apply(self, delta: Delta) -> Step | None:
        records, move = self.records, self.sums.move
        lacks_records = delta.from_version == NO_VERSION and len(delta.changed) < len(records)
        if lacks_records and content_digest(delta.changed) != delta.digest:
            # It is the last part of a service whose other parts were dropped. To remove all other records, and to put
            # them back for the wrong digest, would take seconds where there are very many.
            self.version = NO_VERSION
            return None
        step: Step = {}
        for record in delta.changed:
            register_id = record.register_id
            old = records.get(register_id)
            if old is None or old.data != record.data or old.zone != record.zone:
                records[register_id] = record
                step[register_id] = old, record
                move(old, record)
        if delta.removed or delta.from_version == NO_VERSION:
            for register_id in self._removed(delta):
                old = records.pop(register_id)
                step[register_id] = old, None
                move(old, None)
        if self.sums.digest != delta.digest:
            self._undo(step)
            self.version = NO_VERSION
            return None
        self.version = delta.version
        return step

    def forget_version(self) -> None:
        """Accept only a whole service from now on. The records stay readable."""
        self.version = NO_VERSION
        self._gathered = None

    def _removed(self, delta: Delta) -> Sequence[str]:
        """The register ids that this copy has, and that the state after the delta has not."""
        if delta.from_version != NO_VERSION:
            return [register_id for register_id in delta.removed if register_id in self.records]
        kept = {record.register_id for record in delta.changed}
        return [register_id for register_id in self.records if register_id not in kept]

    def _undo(self, step: Step) -> None:
        for register_id, (old, new) in step.items():
            self.sums.move(new, old)
            if old is None:
                del self.records[register_id]
            else:
                self.records[register_id] = old
