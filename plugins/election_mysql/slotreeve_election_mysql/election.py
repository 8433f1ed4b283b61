"""The shell around the state machine: the timer, the requests to the database, the bell; and the Election port."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from slotreeve.clock import Timer
from slotreeve.errors import ElectionError, NotLeader, SlotreeveError, StaleTerm, TransportError, VersionConflict
from slotreeve.ports import Context, Leadership, MetaState

from slotreeve_election_mysql.events import (
    Effect,
    Event,
    Failed,
    Insert,
    Inserted,
    LeadershipChanged,
    Load,
    Loaded,
    Look,
    Looked,
    Noted,
    Release,
    Released,
    Renew,
    Renewed,
    Request,
    ResignAsked,
    Rung,
    Started,
    TakeOver,
    Tick,
    TookOver,
)
from slotreeve_election_mysql.machine import Machine
from slotreeve_election_mysql.ringing import Ringing
from slotreeve_election_mysql.state import CopiedState
from slotreeve_election_mysql.table import Bell, LockTable
from slotreeve_election_mysql.timing import Timing

log = logging.getLogger("slotreeve.election.sql")

NOBODY_LEADS = Leadership(None, 0, False, 0.0, "not started")


@dataclass(frozen=True)
class _Write:
    key: str
    value: bytes
    expected_version: int | None
    term: int
    done: asyncio.Future[int]


class LockElection:
    """Election by a row in a database table, behind :class:`slotreeve.ports.Election`.

    The original's ``MetaJdbcLeaderElector``. Every request goes over one connection, one at a time; a renewal goes
    before writes that wait.

    Attributes:
        failures: errors of its own (not of the database), after each of which this node stood aside for a while.
    """

    def __init__(self, context: Context, timing: Timing, table: LockTable, bell: Bell) -> None:
        """Nothing is opened before :meth:`start`."""
        self._clock, self._rng, self._timing = context.clock, context.rng, timing
        self._observer = context.observe_only or context.node not in context.members
        self._node = context.node
        # Two processes that were given one name must not take each other's lease for their own.
        self._owner = f"{context.node}#{context.rng.getrandbits(48):012x}"
        self._table = table
        self._ringing = Ringing(bell, context.clock, context.rng, timing, self._holds_row, self._rung)
        self._state = CopiedState(self._write)
        self._must_refresh = False
        self._leadership = NOBODY_LEADS
        self._changed: Callable[[Leadership], None] = lambda _leadership: None
        self._machine: Machine | None = None
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._timer: Timer | None = None
        self._request: Request | None = None
        self._writes: deque[_Write] = deque()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._resigning: asyncio.Future[None] | None = None
        self.failures = 0

    # --- Election ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> MetaState:
        """The fenced meta state; see :class:`slotreeve.ports.Election`."""
        return self._state

    def leadership(self) -> Leadership:
        """Who leads now; see :class:`slotreeve.ports.Election`."""
        if not self._leadership.leading or self._machine is None:
            return self._leadership
        known = self._leadership
        return Leadership(known.leader, known.term, True, self._machine.valid_until, known.cause)

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Take part; raises as :meth:`slotreeve.ports.Election.start`."""
        if self._tasks:
            raise ElectionError("this election was started already")
        if not self._node:
            raise ElectionError("the lock election needs the name of its node ([node] name)")
        try:
            await self._table.open(self._observer)
        except BaseException:
            self._table.abort()
            raise
        self._changed = changed
        self._begin()
        self._tasks = [self._supervised("requests", self._serve)]
        if not self._observer:
            self._tasks.append(self._supervised("bell", self._ringing.run))

    async def resign(self) -> None:
        """Give up leadership; returns when the row is released, or could not be within the time-out."""
        if self._leadership.leading:
            await self._resign(for_good=False)

    async def stop(self) -> None:
        """Resign and stop taking part. Idempotent."""
        if not self._tasks:
            return
        await self._resign(for_good=True)
        self._cease("stopped")
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._ringing.abort()
        await self._table.close()

    async def _resign(self, for_good: bool) -> None:
        if self._resigning is None:
            self._resigning = asyncio.get_running_loop().create_future()
            self._happened(ResignAsked(for_good))
            self._check_resigned(None)
        resigning = self._resigning
        if resigning is None:
            return
        timer = self._clock.call_later(2 * self._timing.timeout, lambda: self._resigned(resigning))
        try:
            await asyncio.shield(resigning)
        finally:
            timer.cancel()

    def _check_resigned(self, answer: Event | None) -> None:
        """The resignation is over when nothing is under way, or when the database said so, or cannot."""
        if self._resigning is not None and (self._request is None or isinstance(answer, Released | Failed)):
            self._resigned(self._resigning)

    def _resigned(self, resigning: asyncio.Future[None]) -> None:
        if not resigning.done():
            resigning.set_result(None)
        self._resigning = None
        self._ringing.look()

    # --- stepping ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._machine = Machine(self._owner, self._observer, self._timing, self._rng, self._leadership.term)
        self._happened(Started())

    def _happened(self, event: Event) -> None:
        """Step the machine; what happens while it is being stepped waits for its turn."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events and self._machine is not None:
                self._step(self._machine, self._events.popleft())
            self._events.clear()
        finally:
            self._is_stepping = False
        self._set_timer()

    def _step(self, machine: Machine, event: Event) -> None:
        try:
            for effect in machine.step(event, self._clock.now()):
                self._carry_out(effect)
        except Exception as error:
            log.exception("election: the state machine failed")
            self.failures += 1
            self._cease(f"{type(error).__name__}: {error}")
            # By then the answer to any request is in.
            self._clock.call_later(self._timing.timeout + self._timing.renew, self._come_back)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case LeadershipChanged(owner, term, leading, cause):
                name = None if owner is None else owner.rpartition("#")[0] or owner
                self._report(Leadership(name, term, leading, 0.0, cause))
            case Noted(text):
                log.warning("election: %s (%s)", text, self._table.place)
            case _:
                self._request = effect
                self._wake.set()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._machine is not None and self._machine.deadline < float("inf"):
            delay = max(0.0, self._machine.deadline - self._clock.now())
            self._timer = self._clock.call_later(delay, lambda: self._happened(Tick()))

    def _report(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._ringing.look()
        try:
            self._changed(self.leadership())
        except Exception:
            log.exception("election: whoever was told of the leader failed")

    def _cease(self, why: str) -> None:
        """The machine is gone: nobody leads as far as this node knows, and writers are told so."""
        self._machine = self._request = None
        self._set_timer()
        if self._leadership.leader is not None:
            self._report(Leadership(None, self._leadership.term, False, 0.0, why))
        writes, self._writes = self._writes, deque()
        for write in writes:
            _fail(write, NotLeader(f"write to {write.key!r}: not stored, this node does not take part now: {why}"))

    def _come_back(self) -> None:
        if self._tasks and self._machine is None:
            self._begin()

    # --- the bell ----------------------------------------------------------------------------------------------------

    def _holds_row(self) -> bool:
        return self._leadership.leading or self._resigning is not None

    def _rung(self) -> None:
        self._happened(Rung())

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        while True:
            if self._request is not None:
                answer = await self._answer(self._request)
                self._request = None
                self._happened(answer)
                self._check_resigned(answer)
            elif self._writes:
                await self._store(self._writes.popleft())
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _answer(self, request: Request) -> Event:
        try:
            return await self._asked(request)
        except SlotreeveError as error:
            return Failed(str(error))
        except Exception as error:
            log.exception("election: a request failed in an unknown way")
            return Failed(f"{type(error).__name__}: {error}")

    async def _asked(self, request: Request) -> Event:
        table, sent_at = self._table, self._clock.now()
        match request:
            case Look():
                row = await table.look()
                return Looked(row, row is not None and row.revision > self._state.revision)
            case Insert(term, may_wait):
                fence = max(term, await table.highest_term())
                wait_ms = self._timing.lease_ms if may_wait or fence > 0 else 0
                await table.insert(fence, wait_ms)
                return Inserted()
            case TakeOver(seen, term):
                won = await table.take_over(seen, self._owner, term, self._timing.lease_ms)
                return TookOver(won, sent_at)
            case Renew(term, term_duration):
                return Renewed(await table.renew(self._owner, term, term_duration), sent_at)
            case Release(term):
                await table.release(self._owner, term)
                return Released()
            case Load():
                await self._refresh()
                return Loaded()

    async def _refresh(self) -> None:
        self._state.apply(await self._table.changes(self._state.revision))
        self._must_refresh = False

    # --- writes ------------------------------------------------------------------------------------------------------

    async def _write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        refusal = self._refusal(key, term)
        if refusal is not None:
            raise refusal
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writes.append(_Write(key, value, expected_version, term, done))
        self._wake.set()
        return await done

    def _refusal(self, key: str, term: int) -> ElectionError | None:
        """What this node knows against a write, without asking the database."""
        known = self.leadership()
        if term < known.term:
            return StaleTerm(f"write to {key!r} under term {term}: this node has seen term {known.term}")
        if not known.leading or self._clock.now() >= known.valid_until or term != known.term:
            leader = known.leader if known.leader and not known.leading else "nobody it knows"
            return NotLeader(f"write to {key!r} under term {term}: this node does not lead; {leader} does")
        return None

    async def _store(self, write: _Write) -> None:
        refusal = self._refusal(write.key, write.term)
        if refusal is not None:
            _fail(write, refusal)
            return
        try:
            if self._must_refresh:
                await self._refresh()
            change = await self._table.write(self._owner, write.term, write.key, write.value, write.expected_version)
        except ElectionError as error:
            _fail(write, error)
            if not isinstance(error, VersionConflict):
                self._rung()
        except TransportError as error:
            self._must_refresh = True
            _fail(write, NotLeader(f"write to {write.key!r}: may or may not be stored: {error}"))
        else:
            self._state.apply([change])
            if not write.done.done():
                write.done.set_result(change[2].version)

    # --- supervision -------------------------------------------------------------------------------------------------

    def _supervised(self, name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(loop(), name=f"election: {name}")
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._machine is None:
            return  # stopped, or standing aside
        # Nobody uses the connections any more; those of a killed node must not stay open.
        self._table.abort()
        self._ringing.abort()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: the loop ended", task.get_name(), exc_info=error)
            self.failures += 1
            self._cease(f"{type(error).__name__}: {error}")


def _fail(write: _Write, error: Exception) -> None:
    if not write.done.done():
        write.done.set_exception(error)
