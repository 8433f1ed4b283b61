"""The tables of the lock election and its notifications in memory, on the caller's clock, for tests and simulation.

A :class:`SimulatedDatabase` is the server. Each start of a node has its own :class:`SimulatedLockTable` and
:class:`SimulatedNotifier`. The database can have outages, slow answers and restarts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

from slotreeve.clock import Clock
from slotreeve.errors import ConnectionLost, NotLeader, RequestTimeout, StaleTerm, VersionConflict
from slotreeve.ports import Versioned

T = TypeVar("T")
Change = tuple[int, str, Versioned]


class Seen(Protocol):
    """The values that a compare-and-set compares."""

    @property
    def owner(self) -> str: ...  # noqa: D102
    @property
    def term(self) -> int: ...  # noqa: D102
    @property
    def term_duration(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class SimulatedRow:
    """The lock row as one statement read it."""

    owner: str
    term: int
    term_duration: int
    remaining_ms: int
    revision: int


@dataclass
class _Stored:
    owner: str
    duration_ms: int
    term: int
    term_duration: int
    modified: float


class SimulatedDatabase:
    """The database server. Its time is that of ``clock``, not that of the nodes' clocks.

    Attributes:
        delay_seconds: travel time of a statement and of its result; called for each.
        is_down: statements fail at once.
        is_silent: statements are carried out, but get no result.
        is_read_only: statements that change something fail.
        cut_off: nodes that cannot reach the database.
        statements: number of statements that were carried out.
        row: the stored row; None if there is none. Tests may change it.
    """

    def __init__(self, clock: Clock, place: str = "the simulated database") -> None:
        self.clock, self.place = clock, place
        self.delay_seconds: Callable[[], float] = lambda: 0.0
        self.is_down = self.is_silent = self.is_read_only = False
        self.cut_off: set[str] = set()
        self.notifiers: list[SimulatedNotifier] = []
        self.statements = 0
        self.row: _Stored | None = None
        self.state: dict[str, tuple[int, Versioned]] = {}
        self.notifier_lock = asyncio.Lock()
        self._epoch = 0

    def restart(self) -> None:
        """End every connection. Committed changes stay."""
        self._epoch += 1
        self.notifier_lock = asyncio.Lock()

    def is_reachable(self, node: str) -> bool:
        """Whether statements of ``node`` reach the database."""
        return not self.is_down and node not in self.cut_off

    def hang_up(self, node: str) -> None:
        """The process of ``node`` was killed: its connections end, and with them its named lock or its wait for it."""
        for notifier in [each for each in self.notifiers if each.node == node]:
            self.notifiers.remove(notifier)
            notifier.die()

    @property
    def epoch(self) -> int:
        """Number of restarts."""
        return self._epoch

    def remaining_ms(self, row: _Stored) -> int:
        """Milliseconds until the row expires, by the database's clock, rounded up."""
        return math.ceil((row.modified - self.clock.now()) * 1000) + row.duration_ms

    @property
    def revision(self) -> int:
        """Revision of the newest change."""
        return max((revision for revision, _ in self.state.values()), default=0)


class _TableLink:
    """A connection to the simulated database. Statements take time and may be lost."""

    def __init__(self, database: SimulatedDatabase, clock: Clock, timeout_seconds: float, node: str) -> None:
        self._database, self._clock, self._timeout, self._node = database, clock, timeout_seconds, node
        self._epoch: int | None = None

    async def run(self, statement: Callable[[], T], changes: bool = False) -> T:
        database = self._database
        began = self._clock.now()
        await self._travel()
        if not database.is_reachable(self._node) or (self._epoch is not None and self._epoch != database.epoch):
            self._epoch = None
            raise ConnectionLost(f"{database.place}: the connection was lost")
        self._epoch = database.epoch
        if changes and database.is_read_only:
            raise ConnectionLost(f"{database.place}: it is read-only")
        database.statements += 1
        result = statement()
        await self._travel()
        late = self._clock.now() - began >= self._timeout
        if database.is_silent or late:
            if not late:
                await self._clock.sleep(began + self._timeout - self._clock.now())
            raise RequestTimeout(f"{database.place}: no answer within {self._timeout:g} s")
        return result

    async def _travel(self) -> None:
        delay = self._database.delay_seconds()
        if delay > 0:
            await self._clock.sleep(delay)


class SimulatedLockTable:
    """The lock table of one node, for the lock election."""

    def __init__(self, database: SimulatedDatabase, clock: Clock, timeout_seconds: float, node: str = "") -> None:
        self._database, self._link = database, _TableLink(database, clock, timeout_seconds, node)

    @property
    def place(self) -> str:
        """The place of the database, for messages."""
        return self._database.place

    async def open(self, observe_only: bool) -> None:
        """Connect."""
        await self._link.run(lambda: None)

    async def look(self) -> SimulatedRow | None:
        """The row."""

        def look() -> SimulatedRow | None:
            row = self._database.row
            if row is None:
                return None
            remaining = self._database.remaining_ms(row)
            return SimulatedRow(row.owner, row.term, row.term_duration, remaining, self._database.revision)

        return await self._link.run(look)

    async def insert(self, term: int, wait_ms: int) -> None:
        """Insert the row if there is none."""

        def insert() -> None:
            if self._database.row is None:
                self._database.row = _Stored("", wait_ms, term, 0, self._database.clock.now())

        await self._link.run(insert, changes=True)

    async def take_over(self, seen: Seen, owner: str, term: int, duration_ms: int) -> bool:
        """Compare and set, after expiry."""

        def take_over(row: _Stored) -> _Stored | None:
            same = (row.owner, row.term, row.term_duration) == (seen.owner, seen.term, seen.term_duration)
            if not same or self._database.remaining_ms(row) > 0:
                return None
            return _Stored(owner, duration_ms, term, 0, self._database.clock.now())

        return await self._compare_and_set(take_over)

    async def renew(self, owner: str, term: int, term_duration: int) -> bool:
        """Compare and set, before expiry."""

        def renew(row: _Stored) -> _Stored | None:
            same = (row.owner, row.term, row.term_duration) == (owner, term, term_duration)
            if not same or self._database.remaining_ms(row) <= 0:
                return None
            return replace(row, term_duration=term_duration + 1, modified=self._database.clock.now())

        return await self._compare_and_set(renew)

    async def release(self, owner: str, term: int) -> bool:
        """Set the row to no owner."""

        def release(row: _Stored) -> _Stored | None:
            if (row.owner, row.term) != (owner, term):
                return None
            return replace(row, owner="", duration_ms=0)

        return await self._compare_and_set(release)

    async def _compare_and_set(self, change: Callable[[_Stored], _Stored | None]) -> bool:
        def compare_and_set() -> bool:
            new = None if self._database.row is None else change(self._database.row)
            if new is None:
                return False
            self._database.row = new
            return True

        return await self._link.run(compare_and_set, changes=True)

    async def changes(self, after: int) -> Sequence[Change]:
        """The changes after a revision."""

        def read() -> Sequence[Change]:
            state = self._database.state.items()
            return sorted((revision, key, held) for key, (revision, held) in state if revision > after)

        return await self._link.run(read)

    async def highest_term(self) -> int:
        """Of everything written."""
        return await self._link.run(lambda: max((held.term for _, held in self._database.state.values()), default=0))

    async def write(self, owner: str, term: int, key: str, value: bytes, expected_version: int | None) -> Change:
        """Store a value if the row belongs to the owner in that term."""

        def store() -> Change:
            row = self._database.row
            if row is None or (row.term == term and row.owner != owner):
                raise NotLeader(f"write to {key!r} under term {term}: another node holds the row")
            if row.term != term:
                raise StaleTerm(f"write to {key!r} under term {term}: the term is {row.term} now, held by {row.owner}")
            _, held = self._database.state.get(key, (0, Versioned(b"", 0, 0)))
            if expected_version not in (None, held.version):
                raise VersionConflict(f"{key!r}: version {held.version} is stored, {expected_version} was expected")
            revision = self._database.revision + 1
            written = Versioned(value, held.version + 1, term)
            self._database.state[key] = (revision, written)
            return revision, key, written

        return await self._link.run(store, changes=True)

    async def close(self) -> None:
        """Nothing to do."""

    def abort(self) -> None:
        """Nothing to do."""


class SimulatedNotifier:
    """The named lock; see the lock election's Notifier."""

    def __init__(self, database: SimulatedDatabase, clock: Clock, node: str = "") -> None:
        self.node = node
        self._database, self._clock = database, clock
        self._held: asyncio.Lock | None = None
        self._waiting: asyncio.Task[Literal[True]] | None = None
        self._is_dead = False
        database.notifiers.append(self)

    async def acquire(self, wait_seconds: float) -> bool:
        """Wait for it."""
        self._check_up()
        lock = self._database.notifier_lock
        waiting = self._waiting = asyncio.ensure_future(lock.acquire())

        def give_up() -> None:
            waiting.cancel()

        timer = self._clock.call_later(wait_seconds, give_up)
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            waiting.cancel()
            raise
        finally:
            timer.cancel()
            self._waiting = None
        if self._is_dead:
            await asyncio.get_running_loop().create_future()  # nothing happens any more in a killed process
        if waiting.cancelled():
            return False
        self._held = lock
        return True

    async def check(self) -> None:
        """Raise if the connection has ended."""
        self._check_up()
        if self._held is not self._database.notifier_lock:
            self._held = None
            raise ConnectionLost(f"{self._database.place}: the connection was lost")

    async def release(self) -> None:
        """Release the lock, so that the next waiting node gets it."""
        self.abort()

    def abort(self) -> None:
        """Release the lock at once."""
        if self._held is not None:
            self._held.release()
            self._held = None

    def die(self) -> None:
        """The process was killed."""
        self._is_dead = True
        if self._waiting is not None:
            self._waiting.cancel()
        self.abort()

    def _check_up(self) -> None:
        if not self._database.is_reachable(self.node):
            raise ConnectionLost(f"{self._database.place}: it cannot be reached")
