"""The port of elections: they decide which meta server leads, and keep the meta state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec


class Leadership(msgspec.Struct, frozen=True):
    """The leader in the view of one node.

    Attributes:
        leader: name of the leader; None if none is known.
        term: fencing number: rises with every change of leader and never falls (I1). 0 before the first leader.
        leading: True if this node leads and may act (epoch handshake done, state in sync).
        valid_until: end of this node's lease on the local monotonic clock, counted from before the renewal was sent
            (I2). The node must not act as leader after it. 0 if the node does not lead.
        cause: why the view last changed, for people: ``elected``, ``connection lost``, ``quorum lost``, ``resigned``...
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
        version: number of writes to the key; a deletion does not reset it.
        term: the term of its writer.
    """

    value: bytes
    version: int
    term: int


@runtime_checkable
class MetaState(Protocol):
    """A small durable key-value store of the meta servers. Writes are fenced by term (I3)."""

    def read(self, key: str) -> Versioned | None:
        """The committed value in this node's view; on the leader the newest one. None if the key was never written."""

    def keys(self) -> Sequence[str]:
        """All keys that have a value, sorted."""

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        """Store a value; return its version once it is durable (on the disks of a quorum, or in the database).

        ``expected_version`` 0 means that the key must not exist, None that any version may. ``term`` is the writer's.

        Raises:
            NotLeader: this node does not lead, or lost the lead before the write was durable; the value may or may
                not be stored.
            StaleTerm: ``term`` is lower than the highest one seen.
            VersionConflict: the stored version is not the expected one.
        """

    def watch(self, changed: Callable[[str, Versioned], None]) -> Callable[[], None]:
        """Call ``changed`` for every committed change from now on, in order. Call the returned function to stop.

        A key that is gone, because an older state was accepted in the place of the present one, is told once without
        bytes, as version 0.
        """


@runtime_checkable
class Election(Protocol):
    """Decides which meta server leads, and keeps the meta state."""

    @property
    def state(self) -> MetaState:
        """The fenced meta state. On a follower it may lag behind."""

    def leadership(self) -> Leadership:
        """The leader now. Read ``valid_until`` again before every act as leader."""

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Take part. Call ``changed`` on the event loop whenever the leader, the term or ``leading`` changes.

        When ``leading`` becomes true, ``state`` already holds every acknowledged write of all earlier terms.

        Raises:
            StorageError, TransportError, ElectionError: this node cannot take part; the message says why.
        """

    async def resign(self) -> None:
        """Give up the lead so that another node takes over at once. Does nothing if this node does not lead."""

    async def stop(self) -> None:
        """Resign and stop taking part. Idempotent."""
