"""The port of elections: which meta server leads, and the state that they keep together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec


class Leadership(msgspec.Struct, frozen=True):
    """Who leads, as one node knows it.

    Attributes:
        leader: name of the leading node; None while there is none known.
        term: the fencing number: rises with every change of leader, never goes back (I1). 0 before the first.
        leading: True when it is this node, and only once it may act (epoch handshake done, state in sync).
        valid_until: while ``leading``: this node's lease on the local monotonic clock, counted from before the
            renewal was sent (I2); nothing may be done in the leader's name after it. Otherwise 0.
        cause: why it last changed, for a person: ``elected``, ``connection lost``, ``quorum lost``, ``resigned``...
    """

    leader: str | None
    term: int
    leading: bool
    valid_until: float
    cause: str


class Versioned(msgspec.Struct, frozen=True):
    """A value of the meta state.

    Attributes:
        value: the bytes.
        version: 1 at the first write, +1 a write; goes on after a deletion.
        term: the term under which it was written.
    """

    value: bytes
    version: int
    term: int


@runtime_checkable
class MetaState(Protocol):
    """A small durable key-value store that the cluster keeps together; writes are fenced by term (I3)."""

    def read(self, key: str) -> Versioned | None:
        """The committed value as this node knows it; on the leader: the newest. None if never written."""

    def keys(self) -> Sequence[str]:
        """All keys that have a value, sorted."""

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        """Store and return the new version once it is durable (a quorum's disks, or the database).

        ``expected_version`` 0 means "must not exist", None means "whatever is there". ``term`` is the writer's.

        Raises:
            NotLeader: this node does not lead, or stopped leading before the write was sure; it may or may not be
                stored.
            StaleTerm: ``term`` is lower than the highest seen.
            VersionConflict: the stored version is another.
        """

    def watch(self, changed: Callable[[str, Versioned], None]) -> Callable[[], None]:
        """Call ``changed`` for every committed change from now on, in order; returns how to stop it."""


@runtime_checkable
class Election(Protocol):
    """Decides which of the meta nodes leads, and keeps their common state."""

    @property
    def state(self) -> MetaState:
        """The fenced meta state; on a follower it may lag behind."""

    def leadership(self) -> Leadership:
        """Who leads now. ``valid_until`` must be looked at again before every act in the leader's name."""

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Take part; ``changed`` is called on the event loop whenever leader, term or ``leading`` changes.

        When ``leading`` becomes true, ``state`` already holds every acknowledged write of all earlier terms.

        Raises:
            StorageError, TransportError, ElectionError: cannot take part at all; the message says why.
        """

    async def resign(self) -> None:
        """Give up leadership so that another node takes over at once; nothing happens if this node does not lead."""

    async def stop(self) -> None:
        """Resign and stop taking part. Idempotent."""
