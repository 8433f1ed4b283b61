"""Scenarios of whole clusters (docs/fle.md, by S number) on the memory transport and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import slotreeve_election_fle
from slotreeve.errors import AddressInUse, ElectionError, NotLeader, StorageError
from slotreeve.ports import Context, Election
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.disk import EPOCHS
from slotreeve_election_fle.election import FleElection
from slotreeve_machines.storage import MemoryStorage

Play = Callable[..., None]
LEASE = 0.35


def others(ensemble: Ensemble, name: str) -> list[str]:
    return [other for other in ensemble.names if other != name]


def failures(ensemble: Ensemble, name: str) -> int:
    """How often this node's election has stood aside."""
    election = ensemble.election(name)
    assert isinstance(election, FleElection)
    return election.counters()["election_failures"]


def test_s61_of_seven_started_together_the_highest_leads(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        assert await ensemble.agreed() == "meta-7"

    play(scenario, nodes=7)


def test_s62_s63_each_next_highest_takes_over(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        for expected in ("meta-7", "meta-6", "meta-5"):
            assert await ensemble.agreed() == expected
            await ensemble.stop(expected)

    play(scenario, nodes=7)


@pytest.mark.parametrize(("lease_ms", "ping_ms"), [(100, 30), (10_000, 100), (10_000, 3_000)])
def test_leases_that_differ_give_no_two_leaders_at_once(play: Play, lease_ms: int, ping_ms: int) -> None:
    def build(context: Context) -> Election:
        other = {"lease_ms": lease_ms, "ping_interval_ms": ping_ms} if context.node == "meta-3" else {}
        return slotreeve_election_fle.build(FleOptions.model_validate({"data_dir": "data", **other}), context)

    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        assert await ensemble.agreed() == "meta-3"
        await asyncio.sleep(20.0)
        assert (ensemble.leading(), ensemble.election("meta-3").leadership().term) == (["meta-3"], 1)
        ensemble.network.partition(["meta-3"], ["meta-1", "meta-2"])
        await asyncio.sleep(5.0)
        (successor,) = ensemble.leading()
        await ensemble.write(successor, "k", b"new")
        ensemble.network.heal()
        await ensemble.agreed()

    play(scenario, build=build)


def test_s65_a_restarted_member_rejoins_under_the_same_leader(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        term = ensemble.election(leader).leadership().term
        ensemble.kill("meta-1")
        await ensemble.start("meta-1")
        assert await ensemble.agreed() == leader
        assert ensemble.election("meta-1").leadership().term == term

    play(scenario)


def test_s69_an_uncommitted_surplus_of_an_old_leader_is_rolled_back(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        await ensemble.write(leader, "k", b"committed")
        ensemble.network.partition([leader], others(ensemble, leader))
        with pytest.raises(NotLeader, match="may or may not be stored"):
            await ensemble.write(leader, "k", b"surplus")
        ensemble.kill(leader)
        successor = await ensemble.agreed()
        ensemble.network.heal()
        await ensemble.write(successor, "other", b"x")
        await ensemble.start(leader)
        await ensemble.agreed()
        await asyncio.sleep(0.5)
        held = ensemble.election(leader).state.read("k")
        assert held is not None
        assert held.value == b"committed"

    play(scenario)


def test_s70_a_leader_without_followers_stops_at_once_and_says_why(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        for name in others(ensemble, leader):
            ensemble.kill(name)
        await asyncio.sleep(0.05)
        assert ensemble.reports(leader)[-1].leader is None
        assert "quorum lost" in ensemble.reports(leader)[-1].cause
        with pytest.raises(NotLeader):
            await ensemble.write(leader, "k", b"abandoned")
        await ensemble.start(*others(ensemble, leader))
        again = await ensemble.agreed()
        assert ensemble.election(again).state.read("k") is None

    play(scenario)


def test_s83_a_node_whose_disk_refuses_stands_aside_and_the_others_go_on(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        ensemble.storages[leader].failure = "No space left on device"
        with pytest.raises(NotLeader, match="No space left"):
            await ensemble.write(leader, "k", b"v")
        successor = await ensemble.leader(within_seconds=0.7)
        assert successor != leader
        assert failures(ensemble, leader) >= 1
        assert failures(ensemble, successor) == 0
        ensemble.storages[leader].failure = None
        assert await ensemble.agreed() == successor

    play(scenario)


def test_s87_a_member_that_lost_its_disk_does_not_vote_until_it_is_admitted(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        first, second = others(ensemble, leader)
        await ensemble.write(leader, "k", b"v")
        ensemble.network.partition([leader], [first, second])
        ensemble.kill(first)
        ensemble.storages[first] = MemoryStorage(first)
        await ensemble.start(first)
        await asyncio.sleep(5.0)
        assert ensemble.leading() == []
        ensemble.network.heal()
        await ensemble.agreed()
        ensemble.kill(leader)  # now its vote is needed again, and counts
        await ensemble.agreed()

    play(scenario)


def test_s88_a_frozen_leader_is_replaced_after_a_lease_and_follows_when_it_wakes(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        term = ensemble.election(leader).leadership().term
        ensemble.freeze(leader)
        successor = await ensemble.leader(among=others(ensemble, leader), within_seconds=LEASE + 0.1)
        await asyncio.sleep(3 * LEASE)
        ensemble.thaw(leader)
        assert await ensemble.agreed() == successor
        assert ensemble.election(leader).leadership().term > term

    play(scenario)


def test_s89_an_isolated_leader_stops_before_another_starts(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        ensemble.network.partition([leader], others(ensemble, leader))
        successor = await ensemble.leader(among=others(ensemble, leader), within_seconds=LEASE + 0.1)
        assert ensemble.leading() == [successor]
        ensemble.network.heal()
        assert await ensemble.agreed() == successor

    play(scenario)


def test_s89_with_one_follower_reachable_nothing_changes(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        ensemble.network.partition([leader], others(ensemble, leader)[:1])
        await asyncio.sleep(5 * LEASE)
        assert ensemble.leading() == [leader]
        assert len([r for r in ensemble.reports(leader) if r.leading]) == 1

    play(scenario)


def test_a_frozen_leader_whose_connections_are_cut_is_not_taken_for_dead(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        ensemble.freeze(leader)
        for name in others(ensemble, leader):
            ensemble.network.cut(leader, name)
        await asyncio.sleep(0.3)
        assert ensemble.leading() == [leader]
        await ensemble.leader(among=others(ensemble, leader), within_seconds=0.4)

    play(scenario)


def test_followers_that_were_restarted_still_wait_for_the_lease_of_a_leader_they_cannot_see(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        ensemble.network.partition([leader], others(ensemble, leader))
        for name in others(ensemble, leader):
            ensemble.kill(name)
        await ensemble.start(*others(ensemble, leader))
        await asyncio.sleep(0.3)
        assert ensemble.leading() == [leader]
        await ensemble.leader(among=others(ensemble, leader))

    play(scenario)


def test_the_first_election_of_a_new_cluster_does_not_wait_for_any_lease(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.agreed(within_seconds=0.1)

    play(scenario)


def test_a_follower_far_behind_is_sent_the_whole_state(play: Play) -> None:
    def build(context: Context) -> Election:
        return slotreeve_election_fle.build(FleOptions(data_dir="data", snapshot_every_writes=5), context)

    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        absent = others(ensemble, leader)[0]
        ensemble.kill(absent)
        for number in range(40):
            await ensemble.write(leader, f"k{number % 9}", b"x" * 100_000)
        await ensemble.start(absent)
        await ensemble.agreed()
        await asyncio.sleep(0.2)
        assert ensemble.election(absent).state.keys() == ensemble.election(leader).state.keys()
        held = ensemble.election(absent).state.read("k0")
        assert held is not None
        assert held.version == 5

    play(scenario, build=build)


def test_writes_under_way_are_finished_before_a_leader_resigns(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        written, _ = await asyncio.gather(ensemble.write(leader, "k", b"v"), ensemble.election(leader).resign())
        assert written == 1
        successor = await ensemble.leader(within_seconds=0.1)
        assert successor != leader

    play(scenario)


def test_a_lone_survivor_that_resigned_leads_again_when_no_other_can(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        term = ensemble.election(leader).leadership().term
        await ensemble.election(leader).resign()
        assert not ensemble.leading()
        assert await ensemble.leader(within_seconds=3.0) == leader
        assert ensemble.election(leader).leadership().term > term

    play(scenario, nodes=1)


def test_a_directory_without_its_epochs_is_refused_at_the_start(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.agreed()
        ensemble.kill("meta-1")
        ensemble.storages["meta-1"].remove(EPOCHS)
        with pytest.raises(StorageError, match=r"data/epochs: is missing.*move its data directory away"):
            await ensemble.start("meta-1")

    play(scenario)


def test_a_failed_start_gives_the_directory_back(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start("meta-1")
        with pytest.raises((AddressInUse, StorageError)):
            await ensemble.start("meta-1")
        ensemble.storages["meta-2"].files["identity"] = b"nonsense"
        for _ in range(2):
            with pytest.raises(StorageError, match="data/"):
                await ensemble.start("meta-2")

    play(scenario)


def test_an_election_needs_a_transport_and_a_place_among_the_members() -> None:
    import random

    from slotreeve.clock import LoopClock
    from slotreeve_transport_memory.transport import MemoryTransport

    async def main() -> None:
        clock = LoopClock()
        with pytest.raises(ElectionError, match="needs a transport"):
            slotreeve_election_fle.build(FleOptions(), Context("c", 1, clock, random.Random(0)))
        context = Context("c", 1, clock, random.Random(0), "x", {"a": "a:1"}, transport=MemoryTransport(clock, "x"))
        with pytest.raises(ElectionError, match="'x' is not among the meta servers a"):
            slotreeve_election_fle.build(FleOptions(), context)

    asyncio.run(main())


def test_a_lease_of_fewer_than_three_pings_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lease_ms \(200\) must be at least three times ping_interval_ms \(100\)"):
        FleOptions(lease_ms=200)
