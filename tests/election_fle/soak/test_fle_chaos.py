"""Whole clusters under random faults: the same seed gives the same run; a failing seed is in the test's name."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
import slotreeve_election_fle
from slotreeve.errors import ElectionError
from slotreeve.ports import Context, Election
from slotreeve_conformance.ensemble import Ensemble, Skew
from slotreeve_election_fle import FleOptions

STEPS = 25
QUIET_SECONDS = 5.0


def build(options: FleOptions) -> Callable[[Context], Election]:
    return lambda context: slotreeve_election_fle.build(options, context)


class Chaos:
    """One random fault after the other, and a client that writes all the time."""

    def __init__(self, ensemble: Ensemble, rng: random.Random) -> None:
        self._ensemble, self._rng = ensemble, rng
        self._frozen: set[str] = set()

    async def strike(self) -> None:
        writer = asyncio.get_running_loop().create_task(self._keep_writing())
        faults = [
            self._kill,
            self._start,
            self._freeze,
            self._thaw,
            self._partition,
            self._heal,
            self._cut,
            self._resign,
        ]
        for _ in range(STEPS):
            await self._rng.choice(faults)()
            await asyncio.sleep(self._rng.choice([0.0, 0.001, 0.01, 0.1, 0.3, 0.6, 1.5]))
        writer.cancel()

    async def settle(self, quiet_seconds: float) -> None:
        await self._heal()
        for name in sorted(self._frozen):
            self._ensemble.thaw(name)
        self._frozen.clear()
        if stopped := self._stopped():
            await self._ensemble.start(*stopped)
        await self._ensemble.agreed(within_seconds=quiet_seconds)

    def _stopped(self) -> list[str]:
        return [name for name in self._ensemble.names if name not in self._ensemble.running]

    async def _keep_writing(self) -> None:
        number = 0
        while True:
            for name in self._ensemble.leading():
                if name not in self._frozen:
                    number += 1
                    with suppress(ElectionError, TimeoutError):
                        await asyncio.wait_for(self._ensemble.write(name, f"k{number % 7}", b"%d" % number), 1.0)
            await asyncio.sleep(self._rng.choice([0.0, 0.003, 0.02]))

    async def _kill(self) -> None:
        victims = [name for name in self._ensemble.running if name not in self._frozen]
        if victims:
            self._ensemble.kill(self._rng.choice(victims))

    async def _start(self) -> None:
        if stopped := self._stopped():
            await self._ensemble.start(self._rng.choice(stopped))

    async def _bounce(self) -> None:
        """Several at once, so that promises are forgotten before they have run out."""
        awake = [name for name in self._ensemble.running if name not in self._frozen]
        victims = self._rng.sample(awake, self._rng.randint(0, len(awake)))
        for name in victims:
            self._ensemble.kill(name)
        if victims:
            await self._ensemble.start(*victims)

    async def _freeze(self) -> None:
        if awake := [name for name in self._ensemble.running if name not in self._frozen]:
            victim = self._rng.choice(awake)
            self._frozen.add(victim)
            self._ensemble.freeze(victim)

    async def _thaw(self) -> None:
        if self._frozen:
            name = self._rng.choice(sorted(self._frozen))
            self._frozen.discard(name)
            self._ensemble.thaw(name)

    async def _partition(self) -> None:
        group = {name for name in self._ensemble.names if self._rng.random() < 0.5}
        self._ensemble.network.partition(group, set(self._ensemble.names) - group)

    async def _heal(self) -> None:
        self._ensemble.network.heal()

    async def _cut(self) -> None:
        self._ensemble.network.cut(*self._rng.sample(self._ensemble.names, 2))

    async def _resign(self) -> None:
        for name in self._ensemble.leading():
            if name not in self._frozen:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ensemble.election(name).resign(), 2.0)


async def survive(ensemble: Ensemble, seed: int, quiet_seconds: float = QUIET_SECONDS) -> None:
    await ensemble.start()
    chaos = Chaos(ensemble, random.Random(seed))
    for _ in range(3):
        await chaos.strike()
        await chaos.settle(quiet_seconds)
        ensemble.check()
    assert ensemble.acknowledged


@pytest.mark.parametrize("nodes", [3, 5])
@pytest.mark.parametrize("seed", [*range(11), 223])  # 223: a leader frozen, then cut off, then replaced too early
def test_no_invariant_breaks_under_random_faults_and_the_cluster_recovers(
    play: Callable[..., None], nodes: int, seed: int
) -> None:
    options = FleOptions(data_dir="data", snapshot_every_writes=20)
    play(lambda ensemble: survive(ensemble, seed), nodes=nodes, seed=seed, build=build(options))


@pytest.mark.parametrize("seed", range(4))
def test_nor_with_weights_and_groups_on_clocks_that_drift(play: Callable[..., None], seed: int) -> None:
    options = FleOptions(
        data_dir="data",
        snapshot_every_writes=20,
        weights={"meta-1": 2, "meta-5": 0},
        groups={"east": ["meta-1", "meta-2", "meta-5"], "west": ["meta-3"], "north": ["meta-4", "meta-6"]},
    )

    async def scenario(ensemble: Ensemble) -> None:
        rng = random.Random(seed)
        for name in ensemble.names:
            ensemble.skews[name] = Skew(rng.uniform(-900.0, 1e6), rng.uniform(0.992, 1.008), rng.randrange(10**9))
        await survive(ensemble, seed)

    play(scenario, nodes=6, seed=seed, build=build(options))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sync_seconds", [0.004, 0.15])
def test_nor_with_disks_that_work_beside_the_event_loop(
    play: Callable[..., None], seed: int, sync_seconds: float
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        for storage in ensemble.storages.values():
            storage.sync_seconds = sync_seconds
        await survive(ensemble, seed, quiet_seconds=QUIET_SECONDS + 100 * sync_seconds)

    play(scenario, seed=seed, build=build(FleOptions(data_dir="data", snapshot_every_writes=20)))
