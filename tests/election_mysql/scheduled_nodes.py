"""Nodes of a lock election on a real database, each behind a proxy that a schedule rules; what must hold at the end."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any

from slotreeve.clock import LoopClock
from slotreeve.ports import Context, Election, Versioned
from slotreeve_chaos.sql_backends import DIALECTS, TIMES, fresh_tables
from slotreeve_chaos.sql_proxy import SqlProxy
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_chaos.sql_watch import WatchedTables
from slotreeve_conformance.election_backend import InstalledBackend, Wires
from slotreeve_conformance.ensemble import CLUSTER, Ensemble
from slotreeve_conformance.gaplessness import Change, gap
from slotreeve_conformance.sql_schedule import Moment, Schedule, Stop
from slotreeve_election_mysql import LockOptions
from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.dialect import Tables

PATIENCE_SECONDS = 15.0
MOST_ATTEMPTS = 300

STEADY = {"lease_ms": 2_000, "renew_ms": 200, "timeout_ms": 700}
"""For leaders who have to keep their lease on a machine that is busy."""

# The plugin's statements
LOOK = r"^SELECT owner, term, term_duration"
TAKE_OVER = r"^UPDATE .* SET owner = .* term = .* term_duration = 0"
RENEW = r"^UPDATE .* SET term_duration = term_duration \+ 1"
RELEASE = r"^UPDATE .* SET owner = '', duration = 0"
LOAD = r"^SELECT revision, state_key"
HOLD_ROW = r"^BEGIN;.* FOR UPDATE"
PUT = r"^(INSERT INTO|UPDATE) slotreeve_meta_state.*COMMIT"
"""A write's last statements: the change, and its COMMIT."""
OF_TABLE = r"SELECT owner, term|^UPDATE distribute_lock"
"""Statements that only the connection to the table sends; the notifier has its own."""


class AnyNumberOfLeaders(Ensemble):
    """Nodes whose leases may overlap. Their terms, and what they write, are checked all the same."""

    def _check_leases(self) -> None:
        self.samples += 1


class ScheduledNodes:
    """The cluster of one scenario.

    Attributes:
        schedule: what happens to the nodes' statements.
        ensemble: the nodes; none is started.
        watched: the tables.
        copies: for each start of a node its name, and what its state held after each change.
    """

    def __init__(
        self, server: SqlServer, session: Session, times: Mapping[str, object], clock_may_jump: bool = False
    ) -> None:
        """``clock_may_jump``: the database's clock may, so two nodes may hold a lease at once for a while."""
        self._clock_may_jump = clock_may_jump
        self._server = server
        self._options = {**times, **fresh_tables()}
        own = LockOptions.model_validate(self._options)
        self.tables = Tables(own.table, own.state_table, CLUSTER, own.lock_name)
        self.watched = WatchedTables(DIALECTS[server.dialect], self.tables, session)
        self.schedule = Schedule()
        self.copies: list[tuple[str, list[dict[str, Versioned]]]] = []
        self._rivals: list[list[str]] = []
        self.ensemble: Ensemble
        self._proxies: dict[str, SqlProxy] = {}

    @contextlib.asynccontextmanager
    async def opened(self, names: Sequence[str]) -> AsyncIterator[None]:
        """The nodes, until the end of the scenario."""
        self.watched.make()
        async with contextlib.AsyncExitStack() as stack:
            for name in names:
                proxy = SqlProxy(name, self._server, self.schedule, self._count_leaders)
                self._proxies[name] = await stack.enter_async_context(proxy)
            wires, clock = Wires(), LoopClock()
            self.ensemble = await stack.enter_async_context(
                (AnyNumberOfLeaders if self._clock_may_jump else Ensemble)(
                    self._build, wires, names, clock, random.Random(1)
                )
            )
            stack.callback(self.schedule.clear)
            yield

    def _build(self, context: Context) -> Election:
        backend = InstalledBackend()
        backend.name = self._server.dialect
        backend.options = {**self._options, "dsn": self._proxies[context.node].dsn}
        election = backend.build(context)
        copies: list[dict[str, Versioned]] = []
        self.copies.append((context.node, copies))

        def changed(_key: str, _held: Versioned) -> None:
            # When all changes of one answer are in.
            asyncio.get_running_loop().call_soon(lambda: copies.append(contents(election)))

        election.state.watch(changed)
        return election

    def _count_leaders(self) -> None:
        leaders = self.ensemble.leading()
        if len(leaders) > 1 and not self._clock_may_jump:
            self._rivals.append(leaders)

    def stop_at(self, name: str, pattern: str, moment: Moment = Moment.REQUEST) -> Stop:
        """The next statement of this pattern that the node sends. It may come on another connection than the one
        before: where the machine is busy, an answer comes too late, and the connection is made anew."""
        return Stop(name, pattern, moment)

    def cut_off(self, name: str) -> None:
        """End the node's connections."""
        self._proxies[name].cut()

    # --- what must hold ----------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """After every scenario: nothing hangs, there is one leader, every node has what the database has, each got
        there without a gap, and what was acknowledged is stored."""
        self.schedule.clear()
        await self.ensemble.agreed(within_seconds=PATIENCE_SECONDS)
        committed = await self._settled()
        self.ensemble.check()
        assert not self._rivals, f"two nodes held a lease at once: {self._rivals}"
        stored = {(key, held.version): held.value for _, key, held in committed}
        for key, versions in self.ensemble.acknowledged.items():
            for version, value in versions.items():
                assert stored.get((key, version)) == value, f"version {version} of {key!r} is acknowledged, not stored"
        for name, copies in self.copies:
            problem = gap(committed, name, copies)
            assert problem is None, problem
        terms = [held.term for _, _, held in committed]
        assert terms == sorted(terms), f"a write of an older term came after one of a newer term: {terms}"

    async def _settled(self) -> Sequence[Change]:
        """All that the database has committed, once every node knows it: a write that was given up may still come."""
        committed: Sequence[Change] = []
        for _ in range(MOST_ATTEMPTS):
            committed = await asyncio.to_thread(self.watched.committed)
            newest = {key: held for _, key, held in committed}
            if all(self.state_of(name) == newest for name in self.ensemble.running):
                return committed
            await asyncio.sleep(PATIENCE_SECONDS / MOST_ATTEMPTS)
        states = "; ".join(f"{name}: {self.state_of(name)}" for name in self.ensemble.running)
        raise AssertionError(f"the database has {committed[-3:]}; {states}")

    def state_of(self, name: str) -> dict[str, Versioned]:
        """What the node knows."""
        return contents(self.ensemble.election(name))


def contents(election: Election) -> dict[str, Versioned]:
    """The meta state as the node knows it."""
    keys = list(election.state.keys())
    return {key: held for key in keys if (held := election.state.read(key)) is not None}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():  # noqa: ASYNC110 - any condition
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"it did not happen within {PATIENCE_SECONDS:g} s") from None


Scenario = Callable[[ScheduledNodes], Coroutine[Any, Any, None]]


def play(
    scenario: Scenario,
    server: SqlServer,
    times: Mapping[str, object] = TIMES,
    nodes: int = 2,
    clock_may_jump: bool = False,
    is_set_back: bool = False,
) -> None:
    """Run the scenario on nodes of tables of their own, and check what must hold at its end.

    ``times``: of the election. ``is_set_back``: the scenario changes the tables behind the nodes' back, and checks by
    itself what must hold.
    """
    session = DIALECTS[server.dialect].connect(server.dsn(), 30.0, 600.0, 30.0)
    names = [f"meta-{number}" for number in range(1, nodes + 1)]

    async def main() -> None:
        scheduled = ScheduledNodes(server, session, times, clock_may_jump)
        async with scheduled.opened(names):
            try:
                await scenario(scheduled)
                if not is_set_back:
                    await scheduled.check()
            except BaseException as error:
                error.add_note("\n".join(str(statement) for statement in scheduled.schedule.log[-40:]))
                raise

    try:
        asyncio.run(main())
    finally:
        session.close()
