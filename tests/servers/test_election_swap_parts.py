"""A swap of the election, part by part, on elections that the test sets."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import (
    ElectionError,
    NotLeader,
    StorageError,
    VersionConflict,
)
from slotreeve.ports import Leadership, Versioned
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.meta_messages import SwapStep
from slotreeve_servers.meta.swap.back_end import BackEnd, TriesOut
from slotreeve_servers.meta.swap.beside import ABANDON_SECONDS, BackEndsBeside
from slotreeve_servers.meta.swap.election_in_use import GoingOver
from slotreeve_servers.meta.swap.swap_record import KEY, SwapRecord, decode, digest
from slotreeve_servers.node.supervisor import Supervisor

from tests.servers.swap_scene import FencedElection, Scene, TwoElections, play

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


def test_a_copy_that_was_cut_short_counts_as_no_copy() -> None:
    async def main(_rng: random.Random) -> None:
        ends = FencedElection(7), FencedElection(3)
        for election in ends:
            await election.start(lambda _: None)
        old, new = (BackEnd(name, election) for name, election in zip(("old", "new"), ends, strict=True))
        await old.write("view", b"1", None, 7)

        def ends_after_the_first_record(key: str, held: Versioned) -> None:
            ends[1].state.failure = StorageError("the disk is full")

        ends[1].state.watch(ends_after_the_first_record)
        with pytest.raises(StorageError):
            await new.copy_from(old, SwapRecord("lineage", 1, "new", "old", False, 7))
        assert (new.record.lineage, new.record.generation) == ("lineage", 0)

    run(main)


def test_a_server_goes_over_once_its_store_has_all_of_the_copy() -> None:
    """It may follow in the other election, and have read no more than that the copy was begun."""

    async def story(scene: Scene) -> None:
        leader = FencedElection(3)
        await leader.start(lambda _: None)
        at_leader = BackEnd("new", leader)
        await scene.election.write("view", b"1", None, 7)
        read = list[tuple[str, bytes]]()
        leader.state.watch(lambda key, held: read.append((key, held.value)))
        await at_leader.copy_from(scene.election.back_end, SwapRecord("lineage", 1, "new", "old", False, 7))
        assert [key for key, _ in read] == [KEY, "view", KEY]
        scene.election.go_over(SwapRecord("lineage", 1, "new"))
        for number, (key, value) in enumerate(read):
            await asyncio.sleep(0.5)
            assert scene.election.back_end.name == "old", f"{number} of {len(read)} entries were read"
            scene.new.state.store(key, value)
        await asyncio.sleep(0.5)
        assert scene.election.back_end.name == "new"
        assert scene.election.state.read("view") is not None

    play(story)


def test_the_time_of_a_swap_that_was_given_up_does_not_end_the_next_one() -> None:
    async def main(_rng: random.Random) -> None:
        clock, supervisor = VirtualClock(), Supervisor(VirtualClock())
        beside = BackEndsBeside(TwoElections(), lambda _: None, clock, supervisor)
        await beside.start("new")
        await asyncio.sleep(ABANDON_SECONDS - 10)
        await beside.stop()
        await beside.start("new")
        await asyncio.sleep(ABANDON_SECONDS - 10)
        assert beside.target is not None
        await asyncio.sleep(11)
        assert beside.target is None
        await supervisor.stop()

    run(main)
