"""Faults of directories of meta servers and of the links between them, one at a time."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve_conformance.topologies import LED_WITHIN_SECONDS
from slotreeve_simulator.fault_kinds import ALONE, FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.meta_faults import MetaFaults
from slotreeve_simulator.plan import plan
from slotreeve_simulator.scenario import load_scenario
from slotreeve_simulator.verdict import Violation

from tests.conformance import fle_disk_bugs  # noqa: F401 - adds its bugs
from tests.conformance.election_bugs import BUGS
from tests.simulation.test_injector import Scene, play

LONGEST_SECONDS = 30.0


async def whole(scene: Scene, kind: FaultKind, *first: str, others: tuple[str, ...] = ()) -> None:
    """The fault from its beginning to its end; a directory is set back as far as possible."""
    await scene.cluster.until(lambda: scene.cluster.leader, "a leader")
    await asyncio.sleep(1.0)
    ended = len([line for line in scene.trace.lines(100_000) if "fault 0 ends" in line])
    scene.injector.begin(Fault(0, 0.0, kind, 1.0, first, others, amount=0.0))

    def has_ended() -> bool:
        return len([line for line in scene.trace.lines(100_000) if "fault 0 ends" in line]) > ended

    await scene.cluster.until(has_ended, f"the end of {kind}", LONGEST_SECONDS)


def test_while_a_fault_of_several_steps_takes_place_no_other_one_begins() -> None:
    async def story(scene: Scene) -> None:
        await scene.cluster.until(lambda: scene.cluster.leader, "a leader")
        scene.begin(FaultKind.COPY_META, "meta-1")
        scene.begin(FaultKind.CRASH_META, "meta-2")
        assert "meta-2" in scene.cluster.servers
        await asyncio.sleep(5.0)
        scene.begin(FaultKind.CRASH_META, "meta-2", seconds=3.0)
        scene.begin(FaultKind.COPY_META, "meta-1")
        assert "meta-2" not in scene.cluster.servers

    lines = play(story, meta=3).trace.lines(100_000)
    assert sum("not now" in line for line in lines) == 2
    assert any("meta-1 is refused" in line and "belongs to meta-3" in line for line in lines)


def test_a_directory_as_it_was_earlier_is_brought_up_to_date_and_one_that_was_replaced_is_refused() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene, FaultKind.CRASH_META, "meta-2")
        await asyncio.sleep(2.0)
        await whole(scene, FaultKind.SET_BACK_META, "meta-1")
        assert starts(scene) == 1
        await whole(scene, FaultKind.WIPE_META, "meta-1")
        await scene.cluster.until(lambda: starts(scene) == 2, "the start with an empty directory")
        await asyncio.sleep(2.0)
        await whole(scene, FaultKind.SET_BACK_META, "meta-1")
        assert starts(scene) == 4  # the one that was replaced, and then the newest one

    def starts(scene: Scene) -> int:
        return sum("meta-1 starts" in line for line in scene.trace.lines(100_000))

    play(story, meta=3)


def test_of_two_strangers_none_leads_until_the_third_comes_back() -> None:
    async def story(scene: Scene) -> None:
        await whole(scene, FaultKind.STRANGERS_META, "meta-1")

    play(story, meta=3)


def test_under_a_topology_a_centre_has_to_lead_in_time() -> None:
    async def story(scene: Scene) -> None:
        began = scene.now()
        await whole(scene, FaultKind.TOPOLOGY, "meta-1", "meta-3", others=("meta-3", "meta-1"))
        assert scene.now() - began >= LED_WITHIN_SECONDS

    play(story, meta=3)


def found(story_kind: FaultKind, bug: str) -> Violation | None:
    violations: list[Violation | None] = []

    async def story(scene: Scene) -> None:
        await whole(scene, story_kind, "meta-1")
        violations.append(scene.verdict.violation)
        raise LookupError  # what is broken stays so

    with BUGS[bug].make(), pytest.raises(LookupError):
        play(story, meta=3)
    return violations[0]


def test_a_copy_that_is_not_refused_is_a_violation() -> None:
    violation = found(FaultKind.COPY_META, "any_directory_will_do")
    assert violation is not None
    assert "meta-1 starts with a copy of the directory of meta-3" in str(violation)


def test_the_scenarios_of_meta_servers_plan_every_fault_of_several_steps() -> None:
    names = ("directories", "topologies")
    planned = {fault.kind for name in names for seed in range(6) for fault in faults_of(name, seed)}
    assert planned >= ALONE
    cuts = [fault for fault in faults_of("topologies", 1) if fault.kind is FaultKind.TOPOLOGY]
    assert cuts
    assert all(len(cut.first) == len(cut.others) or not cut.others for cut in cuts)
    assert MetaFaults.__doc__


def faults_of(name: str, seed: int) -> list[Fault]:
    return [fault for storm in plan(load_scenario(name), seed, 1.0) for fault in storm.faults]
