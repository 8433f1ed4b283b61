"""The simulator itself: the same seed is the same run, whole corpora hold, failing runs shrink."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from slotreeve.errors import ConfigError
from slotreeve_simulator.plan import Cut, plan
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import built_in, load_scenario
from slotreeve_simulator.shrink import shrink

import tests.simulation.planted_bugs  # noqa: F401 - adds its bugs

MINUTES = 0.25
"""Of faults, in virtual time: a storm or two. The soak plays the whole of each scenario, with fresh seeds."""


@pytest.mark.parametrize("scenario", built_in())
def test_every_scenario_holds(scenario: str) -> None:
    assert simulate(load_scenario(scenario), 1_001, MINUTES).violation is None


def test_another_seed_is_another_run() -> None:
    scenario = load_scenario("mixed")
    assert len({simulate(scenario, seed, minutes=0.25).trace_hash for seed in (1, 2, 3)}) == 3


def test_only_a_run_that_fails_can_be_shrunk() -> None:
    scenario = load_scenario("clients")
    with pytest.raises(ValueError, match="there is nothing to shrink"):
        shrink(scenario, simulate(scenario, 1, minutes=0.25))


def test_a_longer_plan_begins_like_a_shorter_one() -> None:
    scenario = load_scenario("mixed")
    assert plan(scenario, 9, 2.0)[:2] == plan(scenario, 9, 0.5)


def test_a_cut_plan_keeps_the_numbers_of_its_faults() -> None:
    storms = plan(load_scenario("mixed"), 0, 2.0)
    numbers = [fault.number for storm in storms for fault in storm.faults]
    assert numbers == list(range(len(numbers)))
    kept = Cut(only=(numbers[-1],)).apply(storms)
    assert [fault.number for storm in kept for fault in storm.faults] == [numbers[-1]]


def test_a_lock_election_changes_its_leader_under_faults_and_the_same_seed_is_the_same_run() -> None:
    first, second = (simulate(load_scenario("lock"), 3, last_details=0) for _ in range(2))
    assert first.violation is None
    assert first.trace_hash == second.trace_hash
    assert max(int(found) for line in first.lines for found in re.findall(r"lead in term (\d+)", line)) > 1


def test_a_fault_of_the_store_needs_a_lock_election(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[faults.kinds]\nstore_down = 1.0\n")
    with pytest.raises(ConfigError, match=r'store_down needs a lock election: \[nodes\] election = "lock"'):
        load_scenario(str(path))


def test_an_unknown_scenario_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no such file; built in are again, aimed, .*mixed"):
        load_scenario("mixd")


def test_a_wrong_key_in_a_scenario_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[faults.kinds]\ncrash_everything = 1.0\n")
    with pytest.raises(ConfigError, match=r"faults\.kinds\.crash_everything"):
        load_scenario(str(file))
