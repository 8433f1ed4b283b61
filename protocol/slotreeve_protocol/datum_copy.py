"""A copy of one service that is kept up to date by deltas. Pure. (Original: ``SessionDatumCacheService``, whose copies
expire after 5 s.)

A session server holds one copy for each watched service, a client one for each service and scope that it subscribes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from slotreeve.model.datum import NO_VERSION, with_change
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


@dataclass(eq=False, slots=True)
class GatheredParts:
    """The parts of one delta that have arrived, and the deltas that go on from it.

    Attributes:
        first: the first part.
        changed: the changed records of all parts by register id. ``removed``: the removed register ids.
        digest: of ``changed``, kept as the parts arrive, because to hash a large service at once takes long.
        count: number of parts.
        later: deltas that go on from the gathered one, or parts of them, in order.
    """

    first: Delta
    changed: dict[str, Publisher] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    digest: int = 0
    count: int = 0
    later: list[Delta] = field(default_factory=list)

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
            old = self.changed.get(record.register_id)
            self.changed[record.register_id] = record
            self.removed.pop(record.register_id, None)
            self.digest = with_change(self.digest, old, record)
        for register_id in delta.removed:
            self.digest = with_change(self.digest, self.changed.pop(register_id, None), None)
            self.removed[register_id] = None


@dataclass(frozen=True, slots=True)
class JoinedDelta:
    """All parts of a delta, and what goes on from it, as one delta."""

    from_version: int
    version: int
    digest: int
    changed: Sequence[Publisher]
    removed: Sequence[str]
    more: bool = False


class DatumCopy:
    """All records of one service at one version.

    Invariant: ``version`` only rises, except that it falls to 0 when a delta has a wrong digest (I11). At
    ``version`` > 0 ``records`` is complete (I7) and ``digest`` is its content digest.

    Attributes:
        version: datum version of the copy; 0 if the copy may be wrong.
        digest: content digest of ``records``.
        records: the records by register id.
    """

    __slots__ = ("_gathered", "digest", "records", "version")

    def __init__(self) -> None:
        self.version = NO_VERSION
        self.digest = 0
        self.records: dict[str, Publisher] = {}
        self._gathered: GatheredParts | None = None

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
            gathered = self._gathered = GatheredParts(delta)
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
        return self._apply(delta)

    def _apply_gathered(self, gathered: GatheredParts, last: Delta) -> Step | None:
        for delta in (last, *gathered.later):
            gathered.add(delta)
        end = gathered.later[-1] if gathered.later else last
        if last.from_version != NO_VERSION:
            changed, removed = list(gathered.changed.values()), list(gathered.removed)
            return self._apply(JoinedDelta(last.from_version, end.version, end.digest, changed, removed))
        if gathered.digest != end.digest:
            self.version = NO_VERSION
            return None
        step: Step = {}
        for register_id, record in gathered.changed.items():
            old = self.records.get(register_id)
            if old is None or old.data != record.data or old.zone != record.zone:
                step[register_id] = old, record
        for register_id, old in self.records.items():
            if register_id not in gathered.changed:
                step[register_id] = old, None
        self.records, self.digest, self.version = gathered.changed, end.digest, end.version
        return step

    def _apply(self, delta: Delta) -> Step | None:
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
        self._gathered = None

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
