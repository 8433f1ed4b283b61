"""The lock election on a table in memory and on virtual time, with every kind of fault at once."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from slotreeve.errors import SlotreeveError
from slotreeve.ports import Context, Election
from slotreeve_conformance.election_backend import Wires
from slotreeve_conformance.ensemble import Ensemble, Skew
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable, SimulatedNotifier

TIMING = LockTiming(lease=0.6, renew=0.1, timeout=0.3)
NAMES = [f"meta-{number}" for number in range(1, 6)]
START_SECONDS = 1.0
STEPS = 60


class Trouble:
    """One random trouble at a time, of the database or of a node; all of it over after :meth:`end`."""

    def __init__(self, database: SimulatedDatabase, ensemble: Ensemble, rng: random.Random) -> None:
        self._database, self._ensemble, self._rng = database, ensemble, rng
        self.frozen: set[str] = set()
        database.delay_seconds = self._delay
        self._longest_delay = 0.002

    def _delay(self) -> float:
        return self._rng.uniform(0.0, self._longest_delay)

    async def next(self) -> None:
        database, ensemble, rng = self._database, self._ensemble, self._rng
        name = rng.choice(NAMES)
        match rng.randrange(9):
            case 0:
                database.is_down = not database.is_down
            case 1:
                database.is_silent = not database.is_silent
            case 2:
                database.is_read_only = not database.is_read_only
            case 3:
                database.restart()
            case 4:
                self._longest_delay = rng.choice([0.002, 0.05, 0.25])
            case 5 if name in ensemble.running:
                ensemble.kill(name)
                self.frozen.discard(name)
            case 6 if name in ensemble.running and name not in self.frozen:
                ensemble.freeze(name)
                self.frozen.add(name)
            case 7 if name in ensemble.running and name not in self.frozen:
                await ensemble.election(name).resign()
            case _:
                await self._mend(name)

    async def _mend(self, name: str) -> None:
        if name in self.frozen:
            self.frozen.discard(name)
            self._ensemble.thaw(name)
        elif name not in self._ensemble.running:
            try:
                async with asyncio.timeout(START_SECONDS):
                    await self._ensemble.start(name)
            except (SlotreeveError, TimeoutError):
                self._ensemble.kill(name)  # as a process that could not start, or that waits for the database

    async def end(self) -> None:
        database = self._database
        database.is_down = database.is_silent = database.is_read_only = False
        self._longest_delay = 0.002
        for name in NAMES:
            while name in self.frozen or name not in self._ensemble.running:
                await self._mend(name)


@pytest.mark.parametrize("seed", range(30))
def test_at_most_one_leads_and_no_write_is_lost_whatever_happens(seed: int) -> None:
    async def main(rng: random.Random) -> None:
        clock = VirtualClock()
        database = SimulatedDatabase(clock)

        def build(context: Context) -> Election:
            table = SimulatedLockTable(database, context.clock, TIMING.timeout)
            return LockElection(context, TIMING, table, SimulatedNotifier(database, context.clock))

        async with Ensemble(build, Wires(), NAMES, clock, rng) as ensemble:
            ensemble.skews = {name: Skew(rng.uniform(-1e6, 1e6), rng.uniform(0.995, 1.005)) for name in NAMES}
            await ensemble.start()
            trouble = Trouble(database, ensemble, random.Random(seed))
            for number in range(STEPS):
                await trouble.next()
                await clock.sleep(rng.uniform(0.0, 0.5))
                for leader in set(ensemble.leading()) - trouble.frozen:
                    with contextlib.suppress(SlotreeveError):  # refused, or not known to be stored
                        await ensemble.write(leader, "k", b"%d" % number)
            await trouble.end()
            await ensemble.agreed()
            ensemble.check()
            assert all(ensemble.election(name).failures == 0 for name in ensemble.running)  # type: ignore[attr-defined]

    run(main, seed)


def test_a_silent_database_costs_few_statements() -> None:
    async def main(rng: random.Random) -> None:
        clock = VirtualClock()
        database = SimulatedDatabase(clock)

        def build(context: Context) -> Election:
            table = SimulatedLockTable(database, context.clock, 1.0)
            return LockElection(context, LockTiming(5.0, 1.0, 1.0), table, SimulatedNotifier(database, context.clock))

        async with Ensemble(build, Wires(), NAMES, clock, rng) as ensemble:
            await ensemble.start()
            await ensemble.agreed()
            database.is_silent = True
            before = database.statements
            await clock.sleep(60.0)
            assert not ensemble.leading()
            assert database.statements - before <= 60 * len(NAMES)

    run(main, 1)
