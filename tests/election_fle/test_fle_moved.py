"""A dead member is replaced by a server with an empty directory at an address that the others do not know."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable

import pytest
import slotreeve_election_fle
from slotreeve.errors import ConnectionLost, SlotreeveError
from slotreeve.ports import Context, Election
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.simulated import seeds
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.election import FleElection
from slotreeve_election_fle.identity import Identity, Owner
from slotreeve_election_fle.messages import to_opaque
from slotreeve_machines.storage import MemoryStorage

from tests.election_fle.test_fle_left_directory import connected
from tests.election_fle.test_fle_peers import Stranger

Play = Callable[..., None]
ELSEWHERE = 7799


def build(context: Context) -> Election:
    """A node; one that listens elsewhere has moved."""
    moved = context.members[context.node].endswith(f":{ELSEWHERE}")
    return slotreeve_election_fle.build(FleOptions(data_dir="data", moved=moved), context)


async def replace(ensemble: Ensemble, name: str) -> None:
    """Start a server under this name elsewhere, with an empty directory and a configuration of its own."""
    ensemble.storages[name] = MemoryStorage(name)
    known = ensemble._members
    ensemble._members = {**known, name: f"{name}:{ELSEWHERE}"}
    await ensemble.start(name)
    ensemble._members = known


def may_vote(ensemble: Ensemble, name: str) -> bool:
    election = ensemble.election(name)
    assert isinstance(election, FleElection)
    return election._member is not None and election._member._identity.may_vote


class Load:
    """Writes all the time, through whichever node leads."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble
        self.stored = self.failed = 0
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        number = 0
        while True:
            number += 1
            for name in self._ensemble.leading():
                try:
                    await self._ensemble.write(name, f"k{number % 5}", b"%d" % number)
                    self.stored += 1
                except SlotreeveError:
                    self.failed += 1
            await asyncio.sleep(0.01)


async def until_it_votes(ensemble: Ensemble, name: str) -> None:
    async with asyncio.timeout(30.0):
        while True:
            if may_vote(ensemble, name) and ensemble.election(name).leadership().leader:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_new_server_takes_the_place_of_the_dead_one_without_a_change_of_leader(
    play: Play, number: int, size: int
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        name = f"meta-{number}"
        ensemble.kill(name)
        leader = await ensemble.agreed()
        load = Load(ensemble)
        await asyncio.sleep(1.0)
        await replace(ensemble, name)
        await until_it_votes(ensemble, name)
        await asyncio.sleep(1.0)
        assert ensemble.leading() == [leader]
        assert load.failed == 0
        for other in [other for other in ensemble.names if other not in (name, leader)][: (size - 1) // 2]:
            ensemble.kill(other)
        before = load.stored
        await asyncio.sleep(1.0)
        assert load.stored > before + 20  # a quorum needs it now
        load.task.cancel()

    play(scenario, nodes=size, build=build)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("seed", seeds(3))
def test_kills_at_any_moment_of_a_replacement_break_no_invariant_and_end_with_all_of_them(
    play: Play, seed: int, number: int
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        rng = random.Random(seed)
        await ensemble.start()
        await ensemble.agreed()
        load = Load(ensemble)
        name = f"meta-{number}"
        ensemble.kill(name)
        await asyncio.sleep(rng.random())
        await replace(ensemble, name)
        for _ in range(3):
            await asyncio.sleep(rng.choice([0.0, 0.02, 0.2, 1.1]) * rng.random())
            others = [other for other in ensemble.running if other != name]
            victim = rng.choice(ensemble.leading() or others)
            if victim == name:
                continue  # a dead leader and a lost directory at once are more than a minority of three
            if rng.random() < 0.5:
                ensemble.kill(victim)
                await asyncio.sleep(rng.random())
                await ensemble.start(victim)
            else:
                ensemble.freeze(victim)
                await asyncio.sleep(rng.random())
                ensemble.thaw(victim)
        await until_it_votes(ensemble, name)
        await ensemble.agreed()
        load.task.cancel()
        for other in [other for other in ensemble.names if other != name]:
            ensemble.kill(other)
            await ensemble.leader(within_seconds=15.0)
            await ensemble.start(other)
            await ensemble.agreed(within_seconds=15.0)

    play(scenario, seed=seed, build=build)


@pytest.mark.parametrize("number", [1, 3])
def test_the_directory_of_the_dead_server_never_takes_part_again_and_the_new_one_does(play: Play, number: int) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.agreed()
        name = f"meta-{number}"
        ensemble.kill(name)
        old = ensemble.storages[name]
        leader = await ensemble.agreed()
        await replace(ensemble, name)
        await until_it_votes(ensemble, name)
        ensemble.kill(name)
        new = ensemble.storages[name]
        for _ in range(3):
            ensemble.storages[name] = old
            await ensemble.start(name)
            await asyncio.sleep(3.0)
            assert ensemble.election(name).leadership().leader is None
            assert ensemble.leading() == [leader]
            ensemble.kill(name)
        ensemble.storages[name] = new
        await ensemble.start(name)  # it is back at the old address, for that matter
        assert await ensemble.agreed() == leader

    play(scenario, build=build)


def test_the_dead_server_that_comes_back_beside_the_new_one_disturbs_it_once(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.agreed()
        ensemble.kill("meta-1")
        owner, disk = Owner("meta-1", ensemble.names), Disk(_opened(ensemble.storages["meta-1"]))
        greeting = Identity(disk.read_identity(owner, 1, random.Random(0)))
        await replace(ensemble, "meta-1")
        await until_it_votes(ensemble, "meta-1")
        ends = []
        for _ in range(5):
            stranger = Stranger()
            connection = await connected(ensemble, "meta-2", "meta-1", stranger)
            with contextlib.suppress(ConnectionLost):  # it may have been closed at once
                connection.send(to_opaque(greeting.greeting(1, False)))
            await asyncio.sleep(1.5)
            ends.append(stranger.ended)
        assert all("start it with the newer one" in end for end in ends)
        assert len([report for report in ensemble.reports("meta-1") if report.leader is None and report.term]) <= 1
        assert await ensemble.agreed()

    play(scenario, build=build)


def _opened(storage: MemoryStorage) -> MemoryStorage:
    copy = MemoryStorage()
    copy.files = dict(storage.files)
    return copy.open()


@pytest.mark.parametrize("shift", [0, 10])
def test_a_server_that_leads_elsewhere_is_known_there_to_the_others(play: Play, shift: int) -> None:
    """By its election address before the shift of ports: that of the meta server is counted from it."""

    def build(context: Context) -> Election:
        moved = context.members[context.node].endswith(f":{ELSEWHERE}")
        return slotreeve_election_fle.build(FleOptions(data_dir="data", moved=moved, port_shift=shift), context)

    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.agreed()
        ensemble.kill("meta-1")
        await replace(ensemble, "meta-1")
        await until_it_votes(ensemble, "meta-1")
        ensemble.kill("meta-3")
        while await ensemble.agreed() != "meta-1":
            await ensemble.election("meta-2").resign()
            await asyncio.sleep(0.5)
        other = ensemble.election("meta-2")
        assert isinstance(other, FleElection)
        assert other.announced == {"meta-1": f"meta-1:{ELSEWHERE}"}
        ensemble.freeze("meta-1")
        await asyncio.sleep(2.0)
        ensemble.thaw("meta-1")
        await ensemble.agreed()

    play(scenario, build=build)
