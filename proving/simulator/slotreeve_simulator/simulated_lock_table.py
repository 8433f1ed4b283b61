"""The tables of the lock election and its notifications, as one node uses them in a simulated database.

Each start of a node has its own :class:`SimulatedLockTable` and :class:`SimulatedNotifier`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

from slotreeve.clock import Clock
from slotreeve.errors import ConnectionLost, NotLeader, RequestTimeout, SlotreeveError, StaleTerm, VersionConflict
from slotreeve.ports import Versioned
from slotreeve_election_mysql.table import KEPT_FOR, Change, Position, RowRenewal, StoredEntry, reservation

from slotreeve_simulator.simulated_database import SimulatedDatabase, StoredRow

T = TypeVar("T")


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
    newest: Position
    history: str
    server: str


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _TableLink:
    """A connection to the simulated database. Statements take time and may be lost.

    One that is on its way for longer than its client waits is carried out all the same when it arrives, as by a server
    that reads it before the end of the connection.
    """

    def __init__(self, database: SimulatedDatabase, clock: Clock, timeout_seconds: float, node: str) -> None:
        self._database, self._clock, self._timeout, self._node = database, clock, timeout_seconds, node
        self._epoch: int | None = None

    async def run(self, statement: Callable[[], T], changes: bool = False) -> T:
        """Carry out one statement that needs no lock, or that the row's lock is free for."""
        began = self._clock.now()
        await self._arrive(changes, lambda: self._run_late(statement, changes))
        return await self._come_back(statement(), began)

    async def run_with_row(self, work: Callable[[], T], change: Callable[[T], None] | None = None) -> T:
        """Lock the row, carry out ``work``, and commit what ``change`` does with its result. A transaction that gets
        the lock only after its client has given up is rolled back."""
        database, began = self._database, self._clock.now()
        await self._arrive(change is not None, lambda: self._run_late(lambda: self._at_once(work, change), True))
        if not await self._lock_row(began):
            raise self._late()
        try:
            result = work()
        except BaseException:
            database.row_lock.release()
            raise
        if change is None:
            database.row_lock.release()
        else:
            committing = database.commit(lambda: change(result))
            if committing is not None and not await self._in_time(committing, began):
                raise self._late()
        return await self._come_back(result, began)

    async def _lock_row(self, began: float) -> bool:
        """False if the client has given up before the row was free."""
        lock = self._database.row_lock
        if not lock.locked():
            await lock.acquire()
            return True
        waiting = asyncio.ensure_future(lock.acquire())
        is_locked = False
        try:
            is_locked = await self._in_time(waiting, began)
        finally:
            if not is_locked:  # given up, or the process was killed
                waiting.add_done_callback(lambda done: None if done.cancelled() else lock.release())
                waiting.cancel()
        return is_locked

    async def _in_time(self, task: asyncio.Future[Any], began: float) -> bool:
        """Wait for what the database does, until the client gives up."""
        given_up = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(max(0.0, began + self._timeout - self._clock.now()), lambda: _finish(given_up))
        await asyncio.wait([task, given_up], return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        return task.done()

    async def _arrive(self, changes: bool, late: Callable[[], None]) -> None:
        """The statement travels. ``late`` is called as it arrives where its client has given up before."""
        database, delay = self._database, self._database.delay_seconds()
        if delay >= self._timeout:
            database.clock.call_later(delay, late)
            await self._clock.sleep(self._timeout)
            self._epoch = None
            raise self._late()
        if delay > 0:
            await self._clock.sleep(delay)
        if not database.is_reachable(self._node) or (self._epoch is not None and self._epoch != database.epoch):
            self._epoch = None
            raise ConnectionLost(f"{database.place}: the connection was lost")
        self._epoch = database.epoch
        if changes and database.is_read_only:
            raise ConnectionLost(f"{database.place}: it is read-only")
        database.statements += 1

    async def _come_back(self, result: T, began: float) -> T:
        delay = self._database.delay_seconds()
        if delay > 0:
            await self._clock.sleep(delay)
        late = self._clock.now() - began >= self._timeout
        if self._database.is_silent or late:
            if not late:
                await self._clock.sleep(began + self._timeout - self._clock.now())
            raise self._late()
        return result

    def _late(self) -> RequestTimeout:
        return RequestTimeout(f"{self._database.place}: no answer within {self._timeout:g} s")

    def _run_late(self, statement: Callable[[], object], changes: bool) -> None:
        """Nobody learns what comes of it."""
        database = self._database
        if database.is_reachable(self._node) and not (changes and database.is_read_only):
            database.statements += 1
            with contextlib.suppress(SlotreeveError):
                statement()

    def _at_once(self, work: Callable[[], T], change: Callable[[T], None] | None) -> None:
        """A transaction with the row, unless another one holds it: then it would wait, and is rolled back when the end
        of its connection is noticed."""
        if not self._database.row_lock.locked():
            result = work()
            if change is not None:
                change(result)


class SimulatedLockTable:
    """The lock table of one node, for the lock election."""

    def __init__(self, database: SimulatedDatabase, clock: Clock, timeout_seconds: float, node: str = "") -> None:
        self._database, self._link = database, _TableLink(database, clock, timeout_seconds, node)

    @property
    def place(self) -> str:
        """The place of the database, for messages."""
        return self._database.place

    async def open(self, observe_only: bool) -> str:
        """Connect."""
        await self._link.run(lambda: None)
        return ""

    async def look(self) -> SimulatedRow | None:
        """The row."""

        def look() -> SimulatedRow | None:
            row = self._database.row
            if row is None:
                return None
            remaining = self._database.remaining_ms(row)
            database = self._database
            newest = Position(*database.newest)
            return SimulatedRow(
                row.owner, row.term, row.term_duration, remaining, newest, database.history, database.server
            )

        return await self._link.run(look)

    async def insert(self, term: int, wait_ms: int) -> None:
        """Insert the row if there is none."""

        def insert() -> None:
            if self._database.row is None:
                self._database.row = StoredRow("", wait_ms, term, 0, self._database.clock.now())

        await self._link.run(insert, changes=True)

    async def take_over(self, seen: Seen, owner: str, term: int, duration_ms: int) -> bool:
        """Compare and set, after expiry."""

        def take_over(row: StoredRow) -> StoredRow | None:
            same = (row.owner, row.term, row.term_duration) == (seen.owner, seen.term, seen.term_duration)
            if not same or (self._database.remaining_ms(row) > 0 and row.owner != reservation(owner)):
                return None
            return StoredRow(owner, duration_ms, term, 0, self._database.clock.now())

        return await self._compare_and_set(take_over)

    async def renew(self, owner: str, term: int, term_duration: int) -> RowRenewal:
        """Compare and set, before expiry."""

        def renew(row: StoredRow) -> StoredRow | None:
            same = (row.owner, row.term, row.term_duration) == (owner, term, term_duration)
            if not same or self._database.remaining_ms(row) <= 0:
                return None
            return replace(row, term_duration=term_duration + 1, modified=self._database.clock.now())

        return RowRenewal(await self._compare_and_set(renew), Position(*self._database.newest))

    async def release(self, owner: str, term: int, kept_for: str = "", wait_ms: int = 0) -> bool:
        """Set the row to no owner, or keep it for a node."""

        def release(row: StoredRow) -> StoredRow | None:
            if (row.owner, row.term) != (owner, term):
                return None
            kept = KEPT_FOR + kept_for if kept_for else ""
            return replace(row, owner=kept, duration_ms=wait_ms, modified=self._database.clock.now())

        return await self._compare_and_set(release)

    async def _compare_and_set(self, change: Callable[[StoredRow], StoredRow | None]) -> bool:
        def compare_and_set() -> bool:
            new = None if self._database.row is None else change(self._database.row)
            if new is None:
                return False
            self._database.row = new
            return True

        if not self._database.row_lock.locked():
            return await self._link.run(compare_and_set, changes=True)
        return await self._link.run_with_row(compare_and_set)

    async def index(self, since: int) -> Sequence[StoredEntry]:
        """The values that changed in this revision or later, without their bytes."""
        return await self._link.run(lambda: self._read_index(since))

    async def settled_index(self, since: int) -> Sequence[StoredEntry]:
        """The same, once the row is free."""
        return await self._link.run_with_row(lambda: self._read_index(since))

    async def page(self, after: int, up_to: int | None) -> Sequence[Change]:
        """The changes after one revision, and not after another one."""
        return await self._link.run(lambda: self._read_changes(after, up_to))

    def _read_index(self, since: int) -> Sequence[StoredEntry]:
        changes = self._read_changes(since - 1, None)
        return [StoredEntry(revision, key, held.version, held.term, len(held.value)) for revision, key, held in changes]

    def _read_changes(self, after: int, up_to: int | None) -> Sequence[Change]:
        state = self._database.state.items()
        changes = sorted((revision, key, held) for key, (revision, held) in state if revision > after)
        return [change for change in changes if up_to is None or change[0] <= up_to]

    async def highest_term(self) -> int:
        """Of everything written."""
        return await self._link.run(lambda: max((held.term for _, held in self._database.state.values()), default=0))

    async def write(
        self, owner: str, term: int, key: str, value: bytes, expected_version: int | None, after: Position
    ) -> Change:
        """Store a value if the row belongs to the owner in that term, and the database was not set back."""

        def store() -> Change:
            row = self._database.row
            if row is None or (row.term == term and row.owner != owner):
                raise NotLeader(f"write to {key!r} under term {term}: another node holds the row")
            if row.term != term:
                raise StaleTerm(f"write to {key!r} under term {term}: the term is {row.term} now, held by {row.owner}")
            newest = Position(*self._database.newest)
            if newest.revision < after.revision or (newest.revision == after.revision and newest != after):
                raise NotLeader(f"write to {key!r} under term {term}: the database was set back")
            _, held = self._database.state.get(key, (0, Versioned(b"", 0, 0)))
            if expected_version not in (None, held.version):
                raise VersionConflict(f"{key!r}: version {held.version} is stored, {expected_version} was expected")
            return newest.revision + 1, key, Versioned(value, held.version + 1, term)

        def commit(change: Change) -> None:
            if term < self._database.newest[1]:
                self._database.violations.append(f"I3: {key!r} was written under term {term} after a later one")
            self._database.state[key] = (change[0], change[2])

        return await self._link.run_with_row(store, commit)

    async def begin_history(self, history: str) -> None:
        """Name the history."""
        await self._link.run(lambda: setattr(self._database, "history", history), changes=True)

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
