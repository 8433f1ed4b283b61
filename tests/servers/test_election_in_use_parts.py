"""The election in use, and the shells around a swap, on elections that the test sets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from slotreeve.catalogue import Catalogue
from slotreeve.errors import (
    ConfigError,
    ElectionError,
    NotLeader,
    PluginError,
    SlotreeveError,
    StorageError,
)
from slotreeve.model.nodes import Role
from slotreeve.ports import Context, Election, Leadership
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import ElectionIs, GetElection, SwapOrder, SwapStep
from slotreeve_servers.launch import ConfiguredElections, Launcher
from slotreeve_servers.meta.swap.beside import ABANDON_SECONDS, NO_BACK_ENDS, BackEndsBeside
from slotreeve_servers.meta.swap.election_in_use import UNFINISHED_SECONDS, GoingOver
from slotreeve_servers.meta.swap.swap_record import KEY, SwapRecord
from slotreeve_servers.meta.swap.swap_requests import SwapRequests
from slotreeve_servers.node.other_meta_servers import OtherMetaServers
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.supervisor import Supervisor
from slotreeve_servers.settings import load_settings
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.servers.swap_scene import FencedElection, Scene, TwoElections, play

# --- the election in use ---------------------------------------------------------------------------------------------


def test_a_fence_in_the_store_leads_to_the_election_that_it_names() -> None:
    async def story(scene: Scene) -> None:
        scene.new.state.store(KEY, SwapRecord("lineage", 1, "new", "old", True, 7).encode())
        scene.new.state.store("view", b"1")
        scene.old.state.store(KEY, SwapRecord("lineage", 1, "new").encode())
        assert scene.election.leadership().leader is None
        with pytest.raises(GoingOver):
            await scene.election.write("view", b"2", None, 7)
        await asyncio.sleep(0.1)
        assert scene.election.back_end.name == "new"
        assert scene.reported[-1].term == 10

    play(story)


def test_a_server_without_options_for_the_election_in_use_gives_up() -> None:
    async def story(scene: Scene) -> None:
        scene.elections.failure = ConfigError("dsn is missing")
        scene.old.state.store(KEY, SwapRecord("lineage", 1, "new").encode())
        await asyncio.sleep(0.1)
        assert "has gone over to 'new', which cannot be built here: dsn is missing" in str(
            scene.supervisor.given_up.result()
        )

    play(story)


def test_a_server_that_starts_with_an_unfinished_copy_gives_up() -> None:
    async def story(scene: Scene) -> None:
        scene.old.state.store(KEY, SwapRecord("lineage", 1, "old", "new", False).encode())
        assert not scene.election.leadership().leading
        await asyncio.sleep(UNFINISHED_SECONDS + 1)
        assert "start with election.use = 'new'" in str(scene.supervisor.given_up.result())
        assert not scene.election.leadership().leading
        with pytest.raises(GoingOver):
            await scene.election.write("view", b"1", None, 7)

    play(story)


def test_a_server_that_missed_a_swap_goes_on_while_the_cluster_swaps_back() -> None:
    async def story(scene: Scene) -> None:
        scene.old.state.store(KEY, SwapRecord("lineage", 2, "old", "new", False, 7).encode())
        await asyncio.sleep(UNFINISHED_SECONDS / 2)
        assert not scene.election.leadership().leading
        scene.old.state.store(KEY, SwapRecord("lineage", 2, "old", "new", True, 7).encode())
        assert scene.election.leadership().leading
        await asyncio.sleep(2 * UNFINISHED_SECONDS)
        assert not scene.supervisor.given_up.done()

    play(story)


def test_before_there_is_a_leader_a_copy_that_looks_unfinished_may_be_finished() -> None:
    """A snapshot may be of the midst of a copy; what came after it is read once there is a leader."""

    async def story(scene: Scene) -> None:
        scene.old.current = Leadership(None, 0, False, 0.0, "no leader yet")
        scene.old.state.store(KEY, SwapRecord("lineage", 0, "old", "new", False, 7).encode())
        await asyncio.sleep(5 * UNFINISHED_SECONDS)
        assert not scene.supervisor.given_up.done()
        assert not scene.election.leadership().leading
        scene.old.state.store(KEY, SwapRecord("lineage", 1, "old", "new", True, 7).encode())
        scene.old.current = Leadership("meta-1", 7, True, float("inf"), "elected")
        assert scene.election.leadership().leading
        assert not scene.supervisor.given_up.done()

    play(story)


def test_an_election_that_the_cluster_has_gone_over_to_is_not_stopped_as_one_started_for_nothing() -> None:
    async def story(scene: Scene) -> None:
        await scene.steps.take(SwapOrder(SwapStep.START, "new"))
        scene.old.state.store(KEY, SwapRecord("lineage", 1, "new").encode())
        await asyncio.sleep(ABANDON_SECONDS + 1)  # nobody leads there meanwhile
        assert not scene.new.is_stopped
        scene.new.state.store(KEY, SwapRecord("lineage", 1, "new", "old", True, 7).encode())
        await asyncio.sleep(1)
        assert scene.election.back_end.name == "new"

    play(story)


def test_what_is_left_of_a_swap_to_another_election_is_not_put_in_use() -> None:
    async def story(scene: Scene) -> None:
        third, build = FencedElection(1), scene.elections.build
        scene.elections.build = lambda name: third if name == "third" else build(name)  # type: ignore[method-assign]
        await scene.steps.take(SwapOrder(SwapStep.START, "new"))
        scene.new.state.store(KEY, SwapRecord("lineage", 1, "new", "old", False, 7).encode())
        third.state.store(KEY, SwapRecord("lineage", 1, "third", "old", True, 7).encode())
        scene.old.state.store(KEY, SwapRecord("lineage", 1, "third").encode())
        await asyncio.sleep(1)
        assert scene.election.back_end.name == "third"
        assert scene.new.is_stopped

    play(story)


def test_a_later_swap_counts_for_a_server_that_still_goes_over_because_of_an_earlier_one() -> None:
    async def story(scene: Scene) -> None:
        scene.elections.failure = StorageError("the database was taken away")
        scene.election.go_over(SwapRecord("lineage", 1, "new"))
        await asyncio.sleep(0.1)
        assert scene.election.is_going_over
        scene.election.go_over(SwapRecord("lineage", 2, "old"))
        assert scene.election.leadership().leading
        await asyncio.sleep(2)
        assert scene.election.beside.target is None

    play(story)


def test_a_server_on_its_way_names_the_election_that_it_goes_to_and_a_fenced_one_never_leads() -> None:
    async def story(scene: Scene) -> None:
        scene.elections.failure = StorageError("the database does not answer")
        assert scene.election.latest == ("old", 0)
        scene.old.state.store(KEY, SwapRecord("lineage", 1, "new").encode())
        assert scene.election.latest == ("new", 1)
        scene.election.go_over(SwapRecord("", 2, "old"))  # the fence of swap 1 is all that this node has read
        assert scene.election.latest == ("old", 0)
        assert not scene.election.leadership().leading
        scene.old.state.store(KEY, SwapRecord("lineage", 2, "old", "new", True, 9).encode())
        assert scene.election.latest == ("old", 2)
        assert scene.election.leadership().leading
        assert (scene.reported[-1].leading, scene.reported[-1].term) == (True, 16)

    play(story)


def test_an_election_that_was_started_for_nothing_stops() -> None:
    async def main(_rng: random.Random) -> None:
        clock, elections = VirtualClock(), TwoElections()
        supervisor = Supervisor(clock)
        beside = BackEndsBeside(elections, lambda _: None, clock, supervisor)
        await beside.start("new")
        assert beside.target is not None
        await asyncio.sleep(ABANDON_SECONDS + 1)
        assert beside.target is None
        assert elections.new.is_stopped
        await supervisor.stop()

    run(main)


def test_a_server_made_with_one_election_can_build_no_other() -> None:
    assert list(NO_BACK_ENDS.names()) == []
    with pytest.raises(PluginError, match="no election 'fle'"):
        NO_BACK_ENDS.build("fle")


# --- a step at a time ------------------------------------------------------------------------------------------------


def test_only_the_leader_there_copies() -> None:
    async def story(scene: Scene) -> None:
        order = SwapOrder(SwapStep.COPY, "new", 1, "lineage", 7, "")
        with pytest.raises(NotLeader):
            await scene.steps.take(order)
        await scene.steps.take(SwapOrder(SwapStep.START, "new"))
        scene.new.current = Leadership("meta-2", 3, False, 0.0, "elected")
        with pytest.raises(NotLeader):
            await scene.steps.take(order)

    play(story)


def test_a_follower_that_lags_behind_copies_nothing() -> None:
    async def story(scene: Scene) -> None:
        await scene.steps.take(SwapOrder(SwapStep.START, "new"))
        with pytest.raises(ElectionError, match="lags behind"):
            await scene.steps.take(SwapOrder(SwapStep.COPY, "new", 1, "lineage", 7, "another digest"))
        assert scene.new.state.values == {}

    play(story)


# --- the shells ------------------------------------------------------------------------------------------------------


def test_the_elections_of_a_configuration_are_built_by_name_with_their_options() -> None:
    async def main(rng: random.Random) -> None:
        flags = {"election.fle.ephemeral": True, "election.postgres.dsn": "postgres://u:p@127.0.0.1:1/d"}
        clock, catalogue = VirtualClock(), Catalogue.load()
        configuration = load_settings(None, {}, flags)
        transport = Launcher(configuration, catalogue, clock, rng).transport("meta-1")
        context = Context("slotreeve", 256, clock, rng, "meta-1", {"meta-1": "127.0.0.1:7712"}, transport)
        elections = ConfiguredElections(configuration, catalogue, context)
        assert elections.names() == ["fle", "postgres"]
        for name in elections.names():
            assert isinstance(elections.build(name), Election)
        with pytest.raises(PluginError, match="there is no election 'raft'"):
            elections.build("raft")
        with pytest.raises(ConfigError, match="dsn is missing"):
            elections.build("mysql")
        await transport.close()

    run(main)


def test_a_meta_server_answers_which_election_it_uses_and_asks_others_by_name() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            server = cluster.meta("meta-1")
            others = OtherMetaServers(server._environment)
            assert others.names == ["meta-2", "meta-3"]
            assert isinstance(server._swaps, SwapRequests)
            mine = server._swaps.on_get_election(Peer("tool", Role.TOOL, "tool@1"), GetElection())
            theirs = await others.ask("meta-2", GetElection(), 1.0)
            assert isinstance(theirs, ElectionIs)
            assert (mine.node, theirs.node, mine.use, theirs.use) == ("meta-1", "meta-2", "fle", "fle")
            with pytest.raises(ElectionError, match=r"meta-2: .*does not take"):
                await others.ask("meta-2", Done(), 1.0)
            cluster.kill("meta-3")
            with pytest.raises(ElectionError, match="meta-3 at "):
                await others.ask("meta-3", GetElection(), 1.0)

    run(scenario, seed=1)


def test_an_election_that_does_not_start_in_time_for_a_swap_is_stopped_again() -> None:
    class Slow(FencedElection):
        has_begun = False

        async def start(self, changed: Callable[[Leadership], None]) -> None:
            self.has_begun = True
            await asyncio.sleep(100)

    async def story(scene: Scene) -> None:
        built = list[Slow]()

        def build(name: str) -> Election:
            assert name == "new"
            built.append(Slow(3))
            return built[-1]

        scene.elections.build = build  # type: ignore[method-assign]
        for _ in range(3):
            with pytest.raises(SlotreeveError, match="does not start within"):
                await scene.swap.run("new")
        started = [election for election in built if election.has_begun]
        assert len(started) == 3
        assert all(election.is_stopped for election in started)

    play(story)


def test_a_swap_that_could_not_be_confirmed_is_confirmed_later() -> None:
    async def story(scene: Scene) -> None:
        write, refused = scene.new.state.write, list[str]()

        async def fails_at_first(key: str, value: bytes, expected_version: int | None, term: int) -> int:
            if key == KEY and expected_version is not None and len(refused) < 3:
                refused.append(key)
                raise StorageError("the connection to the store was reset")
            return await write(key, value, expected_version, term)

        scene.new.state.write = fails_at_first  # type: ignore[method-assign]
        await scene.old.state.write("view", b"v", None, 7)
        await scene.swap.run("new")
        await asyncio.sleep(60)
        assert len(refused) == 3
        assert scene.election.back_end.record.is_confirmed

    play(story)


def test_what_is_stored_in_the_election_that_was_in_use_before_is_reported_to_nobody() -> None:
    async def story(scene: Scene) -> None:
        await scene.election.write("view", b"1", 0, 7)
        await scene.swap.run("new")
        changed = list[str]()
        scene.election.state.watch(lambda key, held: changed.append(key))
        scene.old.state.store("view", b"late")
        assert changed == []
        await scene.election.write("view", b"2", 1, 10)
        assert changed == ["view"]

    play(story)
