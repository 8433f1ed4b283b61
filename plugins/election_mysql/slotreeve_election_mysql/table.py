"""What the election needs of a database: a row to compare and set, a fenced key-value table, and a notifier.

The SQL tables are one implementation; a table in memory is another, for tests and simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from slotreeve.ports import Versioned


class Position(NamedTuple):
    """A change of the meta state: its number, and the term under which it was made. A database that was set back and
    written to again has other changes of the same numbers, under a later term."""

    revision: int
    term: int


NOWHERE = Position(0, 0)
"""Position before the first change."""


class RowRenewal(NamedTuple):
    """Whether the lease runs from the beginning again, and the newest change of the meta state after that."""

    done: bool
    newest: Position


KEPT_FOR = ">"
"""Begin of what stands in the place of an owner, before the name of the node that a released row is kept for."""


def reservation(owner: str) -> str:
    """What stands in the place of an owner where the row is kept for the node of this process."""
    return KEPT_FOR + owner.rpartition("#")[0]


class Row(Protocol):
    """The lock row as one statement read it (SOFARegistry's ``DistributeLockDomain``).

    Attributes:
        owner: the process that holds the lock, ``name#incarnation``; empty once it was released.
        term: rises by one with every change of owner.
        term_duration: renewals within the term.
        remaining_ms: milliseconds until it expires, by the database's clock; 0 or less: it has expired.
        newest: the newest change of the meta state; (0, 0) before the first.
        history: which history of the meta state this is; it changes when an operator accepts a database that was set
            back, and is empty before.
        server: which database server has it; empty where it does not tell.
    """

    @property
    def owner(self) -> str: ...  # noqa: D102
    @property
    def term(self) -> int: ...  # noqa: D102
    @property
    def term_duration(self) -> int: ...  # noqa: D102
    @property
    def remaining_ms(self) -> int: ...  # noqa: D102
    @property
    def newest(self) -> Position: ...  # noqa: D102
    @property
    def history(self) -> str: ...  # noqa: D102
    @property
    def server(self) -> str: ...  # noqa: D102


Change = tuple[int, str, Versioned]
"""Revision, key and what is stored there now."""


@dataclass(frozen=True)
class StoredEntry:
    """A value of the meta state without its bytes: the newest change of its key."""

    revision: int
    key: str
    version: int
    term: int
    size: int


class LockTable(Protocol):
    """One node's access to the table. One call at a time; each is one round trip, a write two.

    Every method may raise TransportError (no answer, or the connection was lost: the statement may or may not have
    been carried out, and the next call connects again) or ElectionError (the database refuses; its message names what
    to do).
    """

    @property
    def place(self) -> str:
        """Database and table, for messages; never a password."""

    async def open(self, observe_only: bool) -> str:
        """Connect, make the tables if they are missing, and check that this account may do what it has to. Returns why
        the configured times do not fit a database that is so far away; empty if they do."""

    async def look(self) -> Row | None:
        """The row, or None if there is none."""

    async def insert(self, term: int, wait_ms: int) -> None:
        """Make the row, owned by nobody, in ``term``, to be taken after ``wait_ms``. Nothing if there is one."""

    async def take_over(self, seen: Row, owner: str, term: int, duration_ms: int) -> bool:
        """Become owner in ``term`` if the row still has the owner, term and term_duration of ``seen``, and has expired
        by the database's clock or is kept for this node. False: it was not so any more. (SOFARegistry's
        ``ownMaster``.)"""

    async def renew(self, owner: str, term: int, term_duration: int) -> RowRenewal:
        """Let the lease run from the beginning if the row has this owner, term and term_duration and has not expired.
        (SOFARegistry's ``ownerHeartbeat``, which compares the owner only.) The newest change is read after that: a
        database that was set back to a moment ago has the same row, and lacks changes."""

    async def release(self, owner: str, term: int, kept_for: str = "", wait_ms: int = 0) -> bool:
        """Set the owner to nobody if the row has this owner and term; the node that looks next may take it. If it is
        kept for a node, only that one may within ``wait_ms``."""

    async def index(self, since: int) -> Sequence[StoredEntry]:
        """The newest change of every key that changed in revision ``since`` or later, by revision."""

    async def settled_index(self, since: int) -> Sequence[StoredEntry]:
        """As :meth:`index`, once the row is free: a write of this node that got no answer holds the row until it is
        committed or rolled back. What is returned contains it, or it is not stored and never will be."""

    async def page(self, after: int, up_to: int | None) -> Sequence[Change]:
        """The newest change of every key that changed after revision ``after`` and, unless ``up_to`` is None, not after
        that one; by revision."""

    async def highest_term(self) -> int:
        """The highest term under which anything in the meta state was written; 0 if nothing was."""

    async def write(
        self, owner: str, term: int, key: str, value: bytes, expected_version: int | None, after: Position
    ) -> Change:
        """Store, in one transaction that holds the row of ``owner`` and ``term``, as a change that follows ``after`` or
        a later one.

        Raises:
            StaleTerm: the row's term is another; the message names both.
            NotLeader: the row's owner is another, or the newest change came before ``after``, or is another one of that
                number: the database was set back.
            ElectionError: the database takes no such value.
            VersionConflict: as :meth:`slotreeve.ports.MetaState.write`.
        """

    async def begin_history(self, history: str) -> None:
        """Make this the history of the meta state; every node then reads all of it again."""

    async def close(self) -> None:
        """End the connection in order."""

    def abort(self) -> None:
        """Drop the connection at once, without a message to the server."""


class Notifier(Protocol):
    """A named lock of the database. The leader's second connection holds it, and all other nodes wait for it.

    A node that gets the lock reads the row at once, since the leader has ended. Nothing but speed depends on it.
    """

    async def acquire(self, wait_seconds: float) -> bool:
        """Wait for the lock; False if it was not got in time. Raises as the methods of :class:`LockTable`."""

    async def check(self) -> None:
        """Raise TransportError if the connection, and with it the lock, is gone."""

    async def release(self) -> None:
        """Release the lock; a node that waits for it gets it."""

    def abort(self) -> None:
        """Drop the connection; the database then gives the lock to a node that waits for it."""
