"""Clusters whose disks take their time for a sync, on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import pytest
from slotreeve.errors import NotLeader
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_election_fle.disk_watch import LONGEST_WRITE_SECONDS
from slotreeve_election_fle.election import CLOSE_SECONDS, RESIGN_SECONDS, FleElection

Play = Callable[..., None]


def slow(ensemble: Ensemble, seconds: float, *names: str) -> None:
    for name in names or ensemble.names:
        ensemble.storages[name].sync_seconds = seconds


def changes_of_leader(ensemble: Ensemble) -> int:
    return sum(report.leading for name in ensemble.running for report in ensemble.reports(name))


@pytest.mark.parametrize("seconds", [0.15, 0.2, 0.4, 1.0])
@pytest.mark.parametrize("nodes", [1, 3, 5])
def test_writes_are_stored_under_one_leader_although_a_sync_takes_longer_than_the_lease(
    play: Play, seconds: float, nodes: int
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        slow(ensemble, seconds)
        await ensemble.start()
        leader = await ensemble.agreed(within_seconds=30 * seconds)
        for number in range(10):
            await asyncio.gather(*(ensemble.write(leader, f"k{number}-{n}", b"v") for n in range(20)))
        await asyncio.sleep(10.0)
        assert ensemble.leading() == [leader]
        assert changes_of_leader(ensemble) == 1

    play(scenario, nodes=nodes)


@pytest.mark.parametrize("is_leader", [True, False])
def test_one_slow_disk_among_fast_ones_costs_no_change_of_leader(play: Play, is_leader: bool) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        victim = leader if is_leader else next(name for name in ensemble.names if name != leader)
        slow(ensemble, 0.4, victim)
        for number in range(40):
            await asyncio.gather(*(ensemble.write(leader, f"k{number}-{n}", b"v") for n in range(50)))
        await asyncio.sleep(5.0)
        assert changes_of_leader(ensemble) == 1
        assert ensemble.election(victim).state.keys() == ensemble.election(leader).state.keys()

    play(scenario)


def test_a_follower_whose_disk_is_slow_commits_many_proposals_with_one_sync(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        victim = next(name for name in ensemble.names if name != leader)
        slow(ensemble, 0.1, victim)
        slow(ensemble, 0.001, *(name for name in ensemble.names if name != victim))
        before = ensemble.storages[victim].syncs
        for number in range(500):
            await ensemble.write(leader, f"k{number}", b"v")
        assert 3 <= ensemble.storages[victim].syncs - before <= 50
        await asyncio.sleep(0.5)
        assert len(ensemble.election(victim).state.keys()) == 500

    play(scenario)


def test_a_leader_on_slow_disks_is_replaced_and_no_acknowledged_write_is_lost(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        slow(ensemble, 0.4)
        await ensemble.start()
        for _ in range(3):
            leader = await ensemble.agreed(within_seconds=20.0)
            await ensemble.write(leader, "k", b"v")
            ensemble.kill(leader)
            assert await ensemble.leader(within_seconds=20.0) != leader
            await ensemble.start(leader)
        await ensemble.agreed(within_seconds=20.0)

    play(scenario)


def test_a_disk_that_hangs_takes_one_follower_out_and_the_others_go_on(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        victim = next(name for name in ensemble.names if name != leader)
        slow(ensemble, 10_000.0, victim)
        for number in range(100):
            await ensemble.write(leader, f"k{number}", b"v")
            await asyncio.sleep(LONGEST_WRITE_SECONDS / 50)
        assert ensemble.leading() == [leader]

    play(scenario)


def test_a_leader_whose_disk_hangs_gives_up_the_lead_and_takes_part_again_once_it_answers(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        await ensemble.write(leader, "a", b"1")
        slow(ensemble, 4 * LONGEST_WRITE_SECONDS, leader)
        with pytest.raises(NotLeader, match="has not taken a write for 30 s"):
            await asyncio.wait_for(ensemble.write(leader, "b", b"2"), LONGEST_WRITE_SECONDS + 5)
        slow(ensemble, 0.0, leader)
        await asyncio.sleep(5)
        (successor,) = ensemble.leading()
        assert successor != leader
        await ensemble.write(successor, "c", b"3")
        await asyncio.sleep(4 * LONGEST_WRITE_SECONDS)
        assert ensemble.leading() == [successor]
        assert ensemble.election(leader).state.keys() == ensemble.election(successor).state.keys()

    play(scenario)


@pytest.mark.parametrize("stops", [True, False], ids=["stops", "resigns"])
@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_leader_whose_disk_hangs_gives_up_the_lead_soon_when_it_is_asked_to(
    play: Play, writes: int, stops: bool
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        slow(ensemble, 1e9, leader)
        writing = []
        for number in range(writes):
            writing.append(asyncio.create_task(ensemble.write(leader, "a", b"%d" % number)))
            await asyncio.sleep(0.5)
        election = ensemble.election(leader)
        leaves = asyncio.create_task(election.stop() if stops else election.resign())
        await asyncio.sleep(RESIGN_SECONDS + 2)
        assert [name for name in ensemble.leading() if name != leader]
        await asyncio.wait_for(leaves, CLOSE_SECONDS + 1)
        for write in writing:
            with contextlib.suppress(NotLeader):
                await write

    play(scenario)


def test_a_slow_disk_is_reported_at_the_start_and_counted(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        slow(ensemble, 0.2, "meta-1")
        with caplog.at_level(logging.WARNING):
            await ensemble.start()
        assert [record for record in caplog.records if "a durable write took 400 ms" in record.message]
        election = ensemble.election("meta-1")
        assert isinstance(election, FleElection)
        assert election.disk_watch.slow_writes >= 1
        assert election.disk_watch.slowest_seconds == pytest.approx(0.4)

    play(scenario)


@pytest.mark.parametrize("seconds", [4.0, 8.0])
def test_nobody_hangs_up_on_a_follower_whose_disk_takes_seconds_for_each_write_nor_does_it(
    play: Play, caplog: pytest.LogCaptureFixture, seconds: float
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        victim = next(name for name in ensemble.names if name != leader)
        ensemble.kill(victim)
        for number in range(20):
            await ensemble.write(leader, f"a{number}", b"v")
        slow(ensemble, seconds, victim)
        caplog.clear()
        await ensemble.start(victim)
        for number in range(120):
            await ensemble.write(leader, f"b{number}", b"v")
            await asyncio.sleep(0.5)
        assert [record.message for record in caplog.records if "closing the connection" in record.message] == []
        assert len(ensemble.election(victim).state.keys()) > 100
        slow(ensemble, 0.0, victim)
        await asyncio.sleep(10)

    play(scenario)
