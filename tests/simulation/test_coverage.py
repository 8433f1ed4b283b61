"""Which faults struck in which states: aimed faults, the states, and the table."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from slotreeve_simulator.aims import AIM_SECONDS, Aims
from slotreeve_simulator.coverage import IMPOSSIBLE, empty_cells, table
from slotreeve_simulator.fault_kinds import (
    ADDED_PROCESSES,
    ALONE,
    DISK_FAULTS,
    GATEWAY_FAULTS,
    ROUGH_FAULTS,
    STORE_FAULTS,
    FaultKind,
)
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.plan import plan
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import load_scenario
from slotreeve_simulator.states import ClusterState, states_of

from tests.simulation.test_injector import Scene, play

SEEDS = 30


def test_every_state_is_aimed_at_by_one_scenario() -> None:
    aims = [*load_scenario("aimed").faults.aims, *load_scenario("promotions").faults.aims]
    assert sorted(aims) == sorted(ClusterState)


def test_the_aimed_scenario_has_every_fault_of_servers() -> None:
    aimed = load_scenario("aimed")
    others = STORE_FAULTS | DISK_FAULTS | ADDED_PROCESSES | GATEWAY_FAULTS | ALONE | ROUGH_FAULTS | {FaultKind.SUSPEND}
    others |= {FaultKind.SLOW_WAY}
    assert set(aimed.faults.kinds) == set(FaultKind) - others


@pytest.mark.parametrize("name", ["aimed", "promotions"])
def test_a_scenario_with_aims_aims_each_fault_at_each_of_them(name: str) -> None:
    scenario = load_scenario(name)
    planned = {
        (fault.kind, fault.aimed_at)
        for seed in range(SEEDS)
        for storm in plan(scenario, seed, scenario.minutes)
        for fault in storm.faults
    }
    cells = {(kind, state) for kind in scenario.faults.kinds for state in scenario.faults.aims}
    assert cells - planned - IMPOSSIBLE.keys() == set()


def test_a_fault_waits_for_its_state_and_is_counted_under_all_states_of_that_moment() -> None:
    async def story(scene: Scene) -> None:
        struck: list[Fault] = []

        def strike(fault: Fault) -> bool:
            struck.append(fault)
            return True

        aims = Aims(scene.cluster, strike)
        assert states_of(scene.cluster) == [ClusterState.QUIET]
        waiting = Fault(0, 0.0, FaultKind.CUT, 1.0, ("data-1",), aimed_at=ClusterState.SLOT_MOVING)
        aims.begin(waiting)
        assert struck == []
        scene.begin(FaultKind.CRASH_DATA, "data-1", seconds=1.0)
        await scene.cluster.until(lambda: struck, "the fault struck", AIM_SECONDS / 2)
        assert struck == [waiting]
        assert aims.struck[FaultKind.CUT, ClusterState.SLOT_MOVING] == 1
        aims.begin(Fault(1, 0.0, FaultKind.CUT, 1.0, ("data-1",), aimed_at=ClusterState.PARTS))
        aims.stop()
        await scene.cluster.until(lambda: True, "nothing", 1.0)
        assert len(struck) == 1

    play(story)


def test_a_fault_that_is_not_possible_in_its_state_is_tried_again() -> None:
    async def story(scene: Scene) -> None:
        tried: list[Fault] = []

        def strike(fault: Fault) -> bool:
            tried.append(fault)
            return len(tried) == 3

        aims = Aims(scene.cluster, strike)
        aims.begin(Fault(0, 0.0, FaultKind.CUT, 1.0, ("data-1",), aimed_at=ClusterState.QUIET))
        await scene.cluster.until(lambda: len(tried) == 3, "the third attempt", 1.0)
        await asyncio.sleep(1.0)
        assert len(tried) == 3
        assert aims.struck == {(FaultKind.CUT, ClusterState.QUIET): 1}

    play(story)


def test_a_run_counts_what_struck_and_the_table_shows_what_did_not() -> None:
    struck = simulate(load_scenario("clients"), 1, minutes=0.25).struck
    assert struck.keys() >= {(kind, ClusterState.QUIET) for kind, _ in struck}
    kinds = sorted({kind for kind, _ in struck})
    states = tuple(ClusterState)
    rows = table(struck, kinds, states)
    assert [row["fault"] for row in rows] == kinds
    assert all(row["quiet"] for row in rows)
    assert f"{kinds[0]} in parts" in empty_cells(struck, kinds, states)
    full = Counter({(kind, state): 1 for kind in kinds for state in ClusterState})
    assert empty_cells(full, kinds, states) == []
    assert list(table(full, kinds[:1], [ClusterState.LOST])[0]) == ["fault", "holder lost"]
