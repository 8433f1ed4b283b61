"""A swap of the election, part by part, on elections that the test sets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.catalogue import Catalogue
from slotreeve.errors import (
    ConfigError,
    ElectionError,
    NotLeader,
    PluginError,
    SlotreeveError,
    StaleTerm,
    StorageError,
    VersionConflict,
)
from slotreeve.model.nodes import Role
from slotreeve.ports import Context, Election, Leadership, Message
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import ElectionIs, GetElection, SwapOrder, SwapStep
from slotreeve_servers.launch import ConfiguredElections, Launcher
from slotreeve_servers.meta.back_end import BackEnd, TriesOut
from slotreeve_servers.meta.beside import ABANDON_SECONDS, NO_BACK_ENDS, BackEndsBeside
from slotreeve_servers.meta.election_in_use import ElectionInUse, GoingOver
from slotreeve_servers.meta.swap import Swap
from slotreeve_servers.meta.swap_desk import SwapDesk
from slotreeve_servers.meta.swap_record import KEY, SwapRecord, decode, digest
from slotreeve_servers.meta.swap_steps import SwapSteps
from slotreeve_servers.node.other_meta_servers import OtherMetaServers
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.supervisor import Supervisor
from slotreeve_servers.settings import load_settings
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.servers.scripted_election import ScriptedElection, ScriptedState


class FencedState(ScriptedState):
    """As scripted, but a write needs the term of its election and the version that it expects."""

    def __init__(self, election: FencedElection) -> None:
        super().__init__()
        self._election = election
        self.failure: SlotreeveError | None = None

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if term != self._election.current.term:
            raise StaleTerm(f"{term} is not {self._election.current.term}")
        found = self.values.get(key)
        if expected_version is not None and expected_version != (found.version if found else 0):
            raise VersionConflict(f"{key}: not {expected_version}")
        return self.store(key, value, term).version


class FencedElection(ScriptedElection):
    """An election in which this node leads in a term, once it was started."""

    def __init__(self, term: int) -> None:
        super().__init__()
        self._state = FencedState(self)
        self._term = term
        self.is_stopped = False
        self.trial = ""

    @property
    def state(self) -> FencedState:
        assert isinstance(self._state, FencedState)
        return self._state

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        self.current = Leadership("meta-1", self._term, True, float("inf"), "elected")
        changed(self.current)

    async def stop(self) -> None:
        self.is_stopped = True

    async def try_out(self) -> str:
        if self.trial:
            raise StorageError(self.trial)
        return "good"


class TwoElections:
    """Implements BackEnds: ``new`` is built from the script, as often as it is asked for."""

    def __init__(self) -> None:
        self.new = FencedElection(3)
        self.failure: SlotreeveError | None = None

    def build(self, name: str) -> Election:
        if self.failure is not None:
            raise self.failure
        if name != "new":
            raise PluginError(f"no election {name}")
        return self.new

    def names(self) -> Sequence[str]:
        return ["new", "old"]


class Followers:
    """Implements the other meta servers of a swap: they take orders, or refuse steps."""

    def __init__(self) -> None:
        self.names = ["meta-2"]
        self.orders: list[SwapOrder] = []
        self.refused: SwapStep | None = None

    async def ask(self, name: str, message: Message, seconds: float) -> Message:
        assert isinstance(message, SwapOrder)
        self.orders.append(message)
        if message.step is self.refused:
            raise ElectionError(f"{name}: refused")
        return Done()

    @property
    def steps(self) -> list[SwapStep]:
        return [order.step for order in self.orders]


class Scene:
    """The leader of the election ``old`` in term 7, which can go over to ``new``."""

    def __init__(self) -> None:
        self.clock, self.old, self.elections, self.others = (
            VirtualClock(),
            FencedElection(7),
            TwoElections(),
            Followers(),
        )
        self.supervisor = Supervisor(self.clock)
        self.election = ElectionInUse("old", self.old, self.elections, self.clock, self.supervisor)
        self.steps = SwapSteps(self.election, self.clock)
        self.swap = Swap("meta-1", self.election, self.steps, self.others, self.clock)
        self.reported: list[Leadership] = []

    @property
    def new(self) -> FencedElection:
        return self.elections.new


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def main(_rng: random.Random) -> None:
        scene = Scene()
        await scene.election.start(scene.reported.append)
        await story(scene)
        await scene.election.stop()
        assert not scene.supervisor.failures
        await scene.supervisor.stop()

    run(main)


# --- the record ------------------------------------------------------------------------------------------------------


def test_a_record_is_read_as_it_was_written_and_anything_else_is_an_error() -> None:
    record = SwapRecord("c0ffee", 2, "new", "old", False, 7, {"view": 11})
    assert decode(record.encode()) == record
    with pytest.raises(StorageError, match="'swap' cannot be read"):
        decode(b"\xc1")


@given(st.dictionaries(st.text(max_size=5), st.tuples(st.integers(1, 9), st.binary(max_size=5))))
def test_digests_are_equal_where_keys_versions_and_values_are(entries: dict[str, tuple[int, bytes]]) -> None:
    listed = [(key, version, value) for key, (version, value) in entries.items()]
    assert digest(listed) == digest(reversed(listed))
    assert digest([*listed, ("another key", 1, b"")]) != digest(listed)
    assert not listed or digest([(key, version + 1, value) for key, version, value in listed]) != digest(listed)


# --- a back-end ------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=2)), max_size=12),
    st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=2)), max_size=12),
)
def test_a_copy_is_equal_and_versions_and_terms_go_on(
    writes: list[tuple[str, bytes]], later: list[tuple[str, bytes]]
) -> None:
    async def main(_rng: random.Random) -> None:
        ends = FencedElection(7), FencedElection(3)
        for election in ends:
            await election.start(lambda _: None)
        old, new = (BackEnd(name, election) for name, election in zip(("old", "new"), ends, strict=True))
        source, target = old, new
        await old.write_record(SwapRecord("lineage", 0, "old"), 7)
        for number, some in enumerate((writes, later), 1):  # there, and back to the store that was left
            for key, value in some:
                await source.write(key, value, None, source.leadership().term)
            versions, term = source.versions(), source.leadership().term
            record = SwapRecord("lineage", number, target.name, source.name, False, term)
            await target.copy_from(source, record)
            assert target.digest() == source.digest()
            assert target.leadership().term > term
            for key, version in versions.items():
                with pytest.raises(VersionConflict):
                    await target.write(key, b"late", version + 1, target.leadership().term)
                assert await target.write(key, b"next", version, target.leadership().term) == version + 1
            source, target = target, source

    run(main)


def test_a_store_that_was_used_otherwise_is_not_copied_into() -> None:
    async def story(scene: Scene) -> None:
        scene.new.state.store("view", b"of another cluster")
        with pytest.raises(ElectionError, match=r"meta-1: .*holds the meta state of another cluster"):
            await scene.swap.run("new")
        assert scene.new.state.values["view"].value == b"of another cluster"
        assert scene.new.is_stopped
        assert scene.election.back_end.name == "old"

    play(story)


# --- a swap ----------------------------------------------------------------------------------------------------------


def test_a_swap_takes_every_step_in_order_and_fences_the_old_election_last() -> None:
    async def story(scene: Scene) -> None:
        await scene.election.write("view", b"1", 0, 7)
        swapped = await scene.swap.run("new")
        assert (swapped.came_from, swapped.to, swapped.generation, swapped.keys) == ("old", "new", 1, 1)
        assert scene.others.steps == [SwapStep.TRY, SwapStep.START, SwapStep.GO_OVER]
        assert decode(scene.old.state.values[KEY].value).use == "new"
        assert scene.election.state.read("view") is not None
        assert scene.election.state.keys() == ["view"]
        assert scene.election.leadership().term == 10
        assert [report.term for report in scene.reported if report.leading] == [7, 10]
        assert await scene.election.write("view", b"2", 1, 10) == 2
        assert scene.old.state.values["view"].value == b"1"
        await asyncio.sleep(6)
        assert scene.old.is_stopped
        assert decode(scene.new.state.values[KEY].value).is_confirmed

    play(story)


@pytest.mark.parametrize("step", [SwapStep.TRY, SwapStep.START])
def test_a_meta_server_that_refuses_a_step_ends_the_swap(step: SwapStep) -> None:
    async def story(scene: Scene) -> None:
        scene.others.refused = step
        with pytest.raises(ElectionError, match="meta-2: refused"):
            await scene.swap.run("new")
        assert KEY not in scene.old.state.values
        assert scene.election.beside.target is None
        assert await scene.election.write("view", b"1", 0, 7) == 1
        scene.others.refused = None
        assert (await scene.swap.run("new")).generation == 1

    play(story)


def test_a_store_that_cannot_be_used_ends_the_swap_before_anything_starts() -> None:
    async def story(scene: Scene) -> None:
        assert isinstance(scene.new, TriesOut)
        scene.new.trial = "the disk is full"
        with pytest.raises(ElectionError, match="the disk is full"):
            await scene.swap.run("new")
        assert scene.new.current.term == 0
        assert SwapStep.START not in scene.others.steps

    play(story)


def test_a_copy_that_fails_lets_the_old_election_write_again() -> None:
    async def story(scene: Scene) -> None:
        scene.new.state.failure = StorageError("the disk is full")
        with pytest.raises(ElectionError, match="meta-1: the disk is full"):
            await scene.swap.run("new")
        assert scene.others.steps[-1] is SwapStep.ABANDON
        assert await scene.election.write("view", b"1", 0, 7) == 1

    play(story)


def test_a_fence_of_unknown_outcome_ends_the_lead_and_this_term_writes_no_more() -> None:
    async def story(scene: Scene) -> None:
        write = scene.old.state.write

        async def lost(key: str, value: bytes, expected_version: int | None, term: int) -> int:
            if key == KEY and decode(value).use == "new":
                raise NotLeader("may or may not be stored")
            return await write(key, value, expected_version, term)

        scene.old.state.write = lost  # type: ignore[method-assign]
        with pytest.raises(ElectionError, match="not known yet whether the swap was completed"):
            await scene.swap.run("new")
        assert scene.old.current.cause == "resigned"
        with pytest.raises(GoingOver):
            await scene.election.write("view", b"1", 0, 7)
        scene.old.current = Leadership("meta-1", 8, True, float("inf"), "elected")
        assert await scene.election.write("view", b"1", 0, 8) == 1

    play(story)


def test_a_leader_that_does_not_know_the_end_of_a_write_does_not_swap() -> None:
    async def story(scene: Scene) -> None:
        scene.old.state.failure = NotLeader("may or may not be stored")
        with pytest.raises(NotLeader):
            await scene.election.write("view", b"1", 0, 7)
        scene.old.state.failure = None
        with pytest.raises(ElectionError, match="not known whether a write"):
            await scene.swap.run("new")
        assert scene.others.orders == []

    play(story)


def test_only_a_leader_swaps_and_only_once_at_a_time() -> None:
    async def story(scene: Scene) -> None:
        first = asyncio.ensure_future(scene.swap.run("new"))
        await asyncio.sleep(0)
        with pytest.raises(ElectionError, match="under way already"):
            await scene.swap.run("new")
        await first
        scene.new.current = Leadership("meta-2", 4, False, 0.0, "elected")
        with pytest.raises(NotLeader):
            await scene.swap.run("old")

    play(story)


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
        assert "start with election.use = 'new'" in str(scene.supervisor.given_up.result())
        assert not scene.election.leadership().leading
        with pytest.raises(GoingOver):
            await scene.election.write("view", b"1", None, 7)

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
            assert isinstance(server._swaps, SwapDesk)
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
