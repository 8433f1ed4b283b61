"""One election back-end, with the terms and versions that the cluster counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec
from slotreeve.errors import ConfigError, ElectionError, VersionConflict
from slotreeve.ports import Election, Leadership, Versioned

from slotreeve_servers.meta.swap import swap_record
from slotreeve_servers.meta.swap.swap_record import KEY, SwapRecord

FIRST = SwapRecord("", 0, "")
"""What a back-end without a record counts as: nothing was ever copied into it."""


@runtime_checkable
class TriesOut(Protocol):
    """An election that can try its store without taking part."""

    async def try_out(self) -> str:
        """What was found, for people. Raises a SlotreeveError where the store cannot be used."""


@runtime_checkable
class NeedsAgreement(Protocol):
    """An election that works only between nodes with the same options."""

    @property
    def agreement(self) -> str:
        """Those options, for people; equal on all nodes."""


@runtime_checkable
class HasObservers(Protocol):
    """An election in which some meta servers follow the leader and never lead."""

    is_observer: bool
    """Whether this one is such."""


@runtime_checkable
class NamesObservers(HasObservers, Protocol):
    """An election in which a meta server may lead unless an option names it."""

    names_observers: bool
    """Whether the option names any."""


@runtime_checkable
class HandsOver(Protocol):
    """An election whose leader can choose the next one."""

    async def hand_over(self, name: str) -> None:
        """Give up the lead so that the node ``name`` leads next. Raises ElectionError if that cannot lead."""


class BackEnd:
    """An election by the name of its plugin.

    A back-end counts terms and versions from its own beginning. Those that the cluster sees are these, with what the
    back-end's record adds.
    """

    def __init__(self, name: str, election: Election) -> None:
        self.name, self.election = name, election
        self._record, self._record_version = FIRST, 0

    async def start(self, reported: Callable[[BackEnd], None]) -> None:
        """Take part in the election; ``reported`` is called with each report of it. Raises as the election's start."""
        await self.election.start(lambda _leadership: reported(self))

    @property
    def record(self) -> SwapRecord:
        """The record as this node knows it. Raises StorageError."""
        stored = self.election.state.read(KEY)
        if stored is not None and stored.version != self._record_version:
            self._record, self._record_version = swap_record.decode(stored.value), stored.version
        return self._record

    @property
    def is_fenced(self) -> bool:
        """Whether the cluster's state has gone over to another back-end."""
        return bool(self.record.lineage) and self.record.use != self.name

    def leadership(self) -> Leadership:
        """As :meth:`slotreeve.ports.Election.leadership`, in the cluster's terms."""
        found = self.election.leadership()
        added = self.record.term
        return msgspec.structs.replace(found, term=found.term + added) if added and found.term else found

    def read(self, key: str) -> Versioned | None:
        """As :meth:`slotreeve.ports.MetaState.read`, in the cluster's terms and versions."""
        stored = self.election.state.read(key)
        record = self.record
        if stored is None or not record.lineage:
            return stored
        return Versioned(stored.value, stored.version + record.versions.get(key, 0), stored.term + record.term)

    def keys(self) -> list[str]:
        """All keys but that of the record, sorted."""
        return [key for key in self.election.state.keys() if key != KEY]  # noqa: SIM118 - not a mapping

    def versions(self) -> dict[str, int]:
        """The version of every key."""
        return {key: held.version for key in self.keys() if (held := self.read(key)) is not None}

    def digest(self) -> str:
        """Digest of the whole meta state."""
        held = ((key, self.read(key)) for key in self.keys())
        return swap_record.digest((key, found.version, found.value) for key, found in held if found is not None)

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        """As :meth:`slotreeve.ports.MetaState.write`, in the cluster's terms and versions."""
        record = self.record
        added = record.versions.get(key, 0)
        if expected_version and expected_version <= added:
            raise VersionConflict(f"{key!r}: version {expected_version} was expected; it is higher since a swap")
        expected = expected_version - added if expected_version else expected_version
        return added + await self.election.state.write(key, value, expected, term - record.term)

    async def write_record(self, record: SwapRecord, term: int) -> None:
        """Replace the record, provided that it is the one that this node knows. ``term``: the cluster's.

        Raises:
            NotLeader, StaleTerm, VersionConflict: as the meta state's write.
        """
        own = term - self.record.term
        await self.election.state.write(KEY, record.encode(), self._record_version, own)

    async def copy_from(self, other: BackEnd, record: SwapRecord) -> None:
        """Make this back-end's state that of ``other``, key by key with its version; then write ``record``, completed
        by the versions. This node leads here. Keys that are equal already are not written again.

        Raises:
            ConfigError: this back-end holds the state of another cluster.
            NotLeader, StaleTerm: this node does not lead here any more.
        """
        self._check_owner(other, record.lineage)
        state, term = self.election.state, self.election.leadership().term
        # Before anything else: a copy that was cut short must be known as this cluster's.
        begun = msgspec.structs.replace(record, generation=0, versions={})
        await state.write(KEY, begun.encode(), None, term)
        wanted = [(key, held) for key in other.keys() if (held := other.read(key)) is not None]  # noqa: SIM118
        present = {key: state.read(key) for key, _ in wanted}
        missing = [
            (key, held.value) for key, held in wanted if (found := present[key]) is None or found.value != held.value
        ]
        await asyncio.gather(*(state.write(key, value, None, term) for key, value in missing))
        versions = {key: held.version - found.version for key, held in wanted if (found := state.read(key)) is not None}
        await state.write(KEY, msgspec.structs.replace(record, versions=versions).encode(), None, term)

    def _check_owner(self, other: BackEnd, lineage: str) -> None:
        mine, theirs = set(self.keys()), set(other.keys())
        if mine and self.record.lineage != lineage:
            raise ConfigError(
                f"the store of election {self.name!r} holds the meta state of another cluster, or of this one from "
                "another time ("
                + (", ".join(sorted(mine)[:3]))
                + "); give this cluster a store of its own ([election."
                + self.name
                + "]), or empty it"
            )
        if mine - theirs:
            raise ElectionError(
                f"the store of election {self.name!r} holds keys that the cluster does not have: "
                f"{', '.join(sorted(mine - theirs)[:3])}"
            )
