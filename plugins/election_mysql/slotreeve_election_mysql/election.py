"""The shell of the lock election: carries out what its state machine asks for, and is the Election port itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from slotreeve.errors import ConfigError, ElectionError, NotLeader, Refused, StaleTerm, TransportError
from slotreeve.ports import Context, Leadership, MetaState
from slotreeve_machines.driver import Driver
from slotreeve_machines.leadership import LeadershipChanged, LeadershipReport, Noted, ResignAsked

from slotreeve_election_mysql.events import Alarm, Answer, Effect, Event, Notified, Released, StatementFailed
from slotreeve_election_mysql.machine import Machine
from slotreeve_election_mysql.notification import NotificationLoop
from slotreeve_election_mysql.requests import LockWrite, Requests
from slotreeve_election_mysql.state import CopiedState
from slotreeve_election_mysql.table import LockTable, Notifier
from slotreeve_election_mysql.timing import LockTiming

log = logging.getLogger("slotreeve.election.lock")


class LockElection:
    """Election by a row in a database table, behind :class:`slotreeve.ports.Election`.

    SOFARegistry's ``MetaJdbcLeaderElector``. Every request goes over one connection, one at a time; a renewal goes
    before writes that wait.

    Attributes:
        is_observer: this node never leads.
        names_observers: the configuration says which nodes are observers.
        failures: errors of its own (not of the database), after each of which this node stood aside for a while.
    """

    def __init__(
        self,
        context: Context,
        timing: LockTiming,
        table: LockTable,
        notifier: Notifier,
        observers: Collection[str] = (),
    ) -> None:
        """Nothing is opened before :meth:`start`. ``observers``: names of the nodes that never lead.

        Raises:
            ConfigError: they are not some of the nodes, or they are all.
        """
        _check_observers(observers, context.members)
        self.is_observer = context.observe_only or context.node not in context.members or context.node in observers
        self.names_observers = bool(observers)
        self._candidates = context.members.keys() - set(observers)
        self._clock, self._rng, self._timing = context.clock, context.rng, timing
        self._node = context.node
        # Two processes that were given one name must not take each other's lease for their own.
        self._owner = f"{context.node}#{context.rng.getrandbits(48):012x}"
        self._table = table
        self._state = CopiedState(self._write)
        self._requests = Requests(table, self._state, self._owner, timing.lease_ms, context.clock, timing.keep_ms)
        self._driver: Driver[Event, Effect] = Driver(context.clock, self)
        self._report = LeadershipReport()
        self._notification = NotificationLoop(
            notifier, context.clock, context.rng, timing, self._holds_row, self.row_changed
        )
        self._machine: Machine | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._resigning: asyncio.Future[None] | None = None
        self.failures = 0

    # --- Election ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> MetaState:
        """The fenced meta state; see :class:`slotreeve.ports.Election`."""
        return self._state

    def leadership(self) -> Leadership:
        """The present leader, as this node knows it; see :class:`slotreeve.ports.Election`."""
        return self._report.current(0.0 if self._machine is None else self._machine.valid_until)

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Take part; raises as :meth:`slotreeve.ports.Election.start`.

        It waits while the database cannot be reached or does not answer in time: it may be started later than this
        server, or have much to do.
        """
        if self._tasks:
            raise ElectionError("this election was started already")
        if not self._node:
            raise ElectionError("the lock election needs the name of its node ([node] name)")
        try:
            while not await self._open_table():
                await self._clock.sleep(self._timing.renew)
        except BaseException:
            self._table.abort()
            raise
        self._report.begin(changed)
        self._begin()
        self._tasks = [self._supervised("requests", self._requests.run(self))]
        if not self.is_observer:
            self._tasks.append(self._supervised("notification", self._notification.run()))

    async def _open_table(self) -> bool:
        try:
            misfit = await self._table.open(self.is_observer)
        except Refused:  # it takes no writes
            raise
        except TransportError as error:  # not ElectionError: then it has answered
            log.warning("election: waiting for the database: %s", error)
            return False
        if misfit:
            log.warning("election: %s (%s)", misfit, self._table.place)
        return True

    async def resign(self) -> None:
        """Give up leadership; returns when the row is released, or could not be within the time-out."""
        if self._report.known.leading:
            await self._resign(for_good=False)

    async def hand_over(self, name: str) -> None:
        """Give up leadership so that ``name`` leads next, if it lives: the row is kept for it for a moment.

        Raises:
            ElectionError: that node cannot lead.
        """
        if name not in self._candidates or name == self._node:
            able = ", ".join(sorted(self._candidates - {self._node})) or "none"
            raise ElectionError(f"{name!r} cannot lead in the place of {self._node!r}; these could: {able}")
        if self._report.known.leading:
            await self._resign(for_good=False, to=name)

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
        self._notification.abort()
        await self._table.close()

    async def _resign(self, for_good: bool, to: str = "") -> None:
        if self._resigning is None:
            self._resigning = asyncio.get_running_loop().create_future()
            self._driver.take(ResignAsked(for_good, to))
            if self._requests.under_way is None:
                self._resigned(self._resigning)
        resigning = self._resigning
        if resigning is None:
            return
        timer = self._clock.call_later(2 * self._timing.timeout, lambda: self._resigned(resigning))
        try:
            await asyncio.shield(resigning)
        finally:
            timer.cancel()

    def _resigned(self, resigning: asyncio.Future[None]) -> None:
        if not resigning.done():
            resigning.set_result(None)
        self._resigning = None
        self._notification.leadership_changed()

    async def _write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        refusal = self.refusal(key, term)
        if refusal is not None:
            raise refusal
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._requests.write(LockWrite(key, value, expected_version, term, done))
        return await done

    # --- Performer ---------------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> None:
        """Carry out one effect of the state machine; see :class:`slotreeve_machines.driver.Performer`.

        A request is only begun here: its answer comes as an event.
        """
        match effect:
            case LeadershipChanged(owner, term, leading, cause):
                name = None if owner is None else owner.rpartition("#")[0] or owner
                valid_until = self._machine.valid_until if leading and self._machine is not None else 0.0
                self._change(Leadership(name, term, leading, valid_until, cause))
            case Noted(text):
                log.warning("election: %s (%s)", text, self._table.place)
            case Alarm(text):
                log.error("ALARM: election: %s (%s)", text, self._table.place)
            case _:
                self._requests.ask(effect)

    def failed(self, error: Exception) -> None:
        """The state machine raised an error; see Performer."""
        log.error("election: the state machine failed", exc_info=error)
        self.failures += 1
        self._cease(f"{type(error).__name__}: {error}")
        # By then the answer to any request is in.
        self._clock.call_later(self._timing.timeout + self._timing.renew, self._come_back)

    def _change(self, leadership: Leadership) -> None:
        self._report.change(leadership)
        self._notification.leadership_changed()

    # --- RequestOwner ------------------------------------------------------------------------------------------------

    def answered(self, answer: Answer) -> None:
        """See :class:`slotreeve_election_mysql.requests.RequestOwner`."""
        self._driver.take(answer)
        # A resignation is over when nothing is under way, or when the database has answered it, or cannot.
        is_over = self._requests.under_way is None or isinstance(answer, Released | StatementFailed)
        if self._resigning is not None and is_over:
            self._resigned(self._resigning)

    def refusal(self, key: str, term: int) -> ElectionError | None:
        """See :class:`slotreeve_election_mysql.requests.RequestOwner`."""
        known = self.leadership()
        if term < known.term:
            return StaleTerm(f"write to {key!r} under term {term}: this node knows of term {known.term}")
        if not known.leading or self._clock.now() >= known.valid_until or term != known.term:
            leader = known.leader if known.leader and not known.leading else "no node that it knows of"
            return NotLeader(f"write to {key!r} under term {term}: this node does not lead; {leader} does")
        return None

    def row_changed(self) -> None:
        """See :class:`slotreeve_election_mysql.requests.RequestOwner`; also called for a notification."""
        self._driver.take(Notified())

    # --- the machine begins and ends ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._machine = Machine(self._owner, self.is_observer, self._timing, self._rng, self._report.known.term)
        self._driver.run(self._machine)

    def _come_back(self) -> None:
        if self._tasks and self._machine is None:
            self._begin()

    def _cease(self, why: str) -> None:
        """The machine is gone: this node knows no leader, and the writers are answered."""
        self._driver.stop()
        self._machine = None
        known = self._report.known
        if known.leader is not None:
            self._change(Leadership(None, known.term, False, 0.0, why))
        self._requests.abandon(why)

    def _holds_row(self) -> bool:
        return self._report.known.leading or self._resigning is not None

    def _supervised(self, name: str, loop: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(loop, name=f"election: {name}")
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._machine is None:
            return  # stopped, or standing aside
        # Nothing uses the connections any more; those of a killed node must not stay open.
        self._table.abort()
        self._notification.abort()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: the loop ended", task.get_name(), exc_info=error)
            self.failures += 1
            self._cease(f"{type(error).__name__}: {error}")


def _check_observers(observers: Collection[str], members: Mapping[str, str]) -> None:
    strangers = sorted(set(observers) - members.keys())
    if strangers:
        raise ConfigError(
            f"observers: {', '.join(strangers)} is not in [cluster.meta], which names {', '.join(sorted(members))}"
        )
    if members and members.keys() <= set(observers):
        raise ConfigError("observers: every meta server of [cluster.meta] is named, so none could lead; leave some out")
