"""The first election of all: whom it waits for, who may say that it need not, and what a crash in the middle leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
import slotreeve_election_fle
from slotreeve.errors import ConfigError, StorageError
from slotreeve.ports import Context, Election
from slotreeve_conformance.election_directories import put
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.effects import Send
from slotreeve_election_fle.events import Received
from slotreeve_election_fle.links import WINDOW_SECONDS, TwoWayLinks
from slotreeve_election_fle.messages import Hears

from tests.election_fle.test_fle_lost_votes import votes
from tests.election_fle.test_fle_scenarios import machine

Play = Callable[..., None]


def without(*names: str) -> Callable[[Context], Election]:
    def build(context: Context) -> Election:
        return slotreeve_election_fle.build(FleOptions(data_dir="data", begins_without=list(names)), context)

    return build


def test_new_servers_wait_until_all_are_connected_and_say_for_whom(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start("meta-1", "meta-3")
        await asyncio.sleep(20.0)
        assert ensemble.leading() == []
        for name in ("meta-1", "meta-3"):
            cause = ensemble.election(name).leadership().cause
            assert "it is not connected with meta-2." in cause
            assert "name it in election.fle.begins_without" in cause
        await ensemble.start("meta-2")
        await ensemble.agreed(within_seconds=2.0)

    play(scenario)


def test_an_operator_says_that_the_first_election_need_not_wait_and_who_comes_later_is_admitted(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start("meta-1", "meta-3")
        leader = await ensemble.agreed(within_seconds=2.0)
        await ensemble.write(leader, "k", b"v")
        await ensemble.start("meta-2")
        await ensemble.agreed(within_seconds=2.0)
        await asyncio.sleep(0.5)
        assert votes(ensemble, "meta-2")
        ensemble.kill(leader)
        await ensemble.leader(within_seconds=2.0)

    play(scenario, build=without("meta-2"))


def test_a_server_that_starts_for_the_first_time_does_not_elect_one_that_has_lost_its_disk(play: Play) -> None:
    """Also where an operator has said, and says still, that the cluster begins without that server."""

    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start("meta-2", "meta-3")
        await ensemble.write(await ensemble.agreed(), "k", b"acknowledged")
        ensemble.kill("meta-2")
        put(ensemble, "meta-2")
        ensemble.kill("meta-3")
        await ensemble.start("meta-1", "meta-2")
        await asyncio.sleep(20.0)
        assert ensemble.leading() == []
        await ensemble.start("meta-3")
        await asyncio.sleep(20.0)
        assert ensemble.leading() == []  # the directories of two of three are new: an operator has to decide
        assert "Lost directories" in ensemble.election("meta-2").leadership().cause

    play(scenario, build=without("meta-1"))


@pytest.mark.parametrize("nodes", [3, 5])
def test_a_crash_of_all_at_any_moment_of_the_first_election_leaves_directories_that_elect_together(
    play: Play, nodes: int
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await asyncio.sleep(after_ms / 1000)
        for name in ensemble.names:
            ensemble.kill(name)
        await ensemble.start()
        leader = await ensemble.agreed(within_seconds=5.0)
        await ensemble.write(leader, "k", b"v")
        await asyncio.sleep(0.5)
        assert all(votes(ensemble, name) for name in ensemble.names)
        ensemble.kill(leader)
        await ensemble.leader(within_seconds=2.0)

    for after_ms in range(0, 60, 6):
        play(scenario, nodes=nodes, seed=after_ms)


def test_a_server_that_missed_how_the_first_election_ended_learns_from_a_voter_that_it_has_a_vote(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        def cut(leader: str) -> None:
            ensemble.network.partition([leader], ["meta-1"])

        ensemble.when_leading = cut
        await ensemble.start()
        leader = await ensemble.leader()
        ensemble.kill(leader)
        ensemble.network.heal()
        await ensemble.leader(within_seconds=3.0)
        assert votes(ensemble, "meta-1")

    play(scenario)


@pytest.mark.parametrize(
    ("names", "reason"),
    [(["meta-9"], "begins_without: 'meta-9' is no meta server"), (["meta-1", "meta-2"], "are no quorum")],
)
def test_what_the_cluster_cannot_begin_without_is_refused(play: Play, names: Sequence[str], reason: str) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        with pytest.raises(ConfigError, match=reason):
            await ensemble.start("meta-1")

    play(scenario, build=without(*names))


def test_two_servers_that_have_a_leader_do_not_answer_each_others_answers_for_ever(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.agreed()
        ends = [ensemble.election("meta-1"), ensemble.election("meta-2")]
        heard = [Hears([0, 1, 2], asks=True)]  # the last question of a server, which has found its leader since
        answers = 0
        while heard and answers < 10:
            answers += 1
            effects = machine(ends[answers % 2]).step(Received((answers + 1) % 2, heard[0]), VirtualClock().now())
            heard = [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, Hears)]
        assert answers == 2

    play(scenario)


def test_a_link_is_two_way_as_long_as_both_ends_hear_each_other() -> None:
    links = TwoWayLinks(1)
    links.heard(2, 0.0)
    assert not links.is_two_way(2, 0.0)
    links.told(2, [3], 0.1)
    assert not links.is_two_way(2, 0.1)
    links.told(2, [1, 3], 0.2)
    assert links.is_two_way(2, 0.2)
    assert not links.is_two_way(2, WINDOW_SECONDS)
    assert links.hears(0.2) == [2]
    links.left(2)
    assert links.hears(0.2) == []


def test_a_directory_of_a_start_with_a_wrong_list_is_taken_for_the_right_one_until_an_election_took_place(
    play: Play,
) -> None:
    directories: dict[str, dict[str, bytes]] = {}

    async def misspelt(ensemble: Ensemble) -> None:
        await ensemble.start("meta-1", "meta-2")
        await asyncio.sleep(5.0)
        assert ensemble.leading() == []
        directories.update({name: dict(ensemble.storages[name].files) for name in ("meta-1", "meta-2")})

    async def scenario(ensemble: Ensemble) -> None:
        for name, files in directories.items():
            put(ensemble, name, files)
        await ensemble.start()
        await ensemble.agreed(within_seconds=3.0)
        for name in ensemble.names:
            assert votes(ensemble, name)

    async def later(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.agreed()
        directories.update({name: dict(ensemble.storages[name].files) for name in ("meta-1", "meta-2")})

    async def refused(ensemble: Ensemble) -> None:
        put(ensemble, "meta-1", directories["meta-1"])
        with pytest.raises(StorageError, match="belongs to a cluster of meta-1, meta-2, meta-3, meta-4"):
            await ensemble.start("meta-1")

    play(misspelt, nodes=4)
    play(scenario)
    play(later, nodes=4)
    play(refused)


def test_other_files_in_a_new_directory_are_left_alone(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        for name in ensemble.names:
            put(ensemble, name, {"README": b"the state of a meta server"})
        await ensemble.start()
        await ensemble.agreed()
        assert all(storage.files["README"] for storage in ensemble.storages.values())

    play(scenario)
