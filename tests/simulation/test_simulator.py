"""The simulator itself: the same seed is the same run, whole corpora hold, failing runs shrink."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slotreeve.errors import ConfigError
from slotreeve_simulator.fault_kinds import GATEWAY_FAULTS, STORE_FAULTS, FaultKind
from slotreeve_simulator.plan import Cut, plan
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import Scenario, built_in, load_scenario
from slotreeve_simulator.shrink import shrink

import tests.simulation.planted_bugs  # noqa: F401 - adds its bugs
from tests.simulation.planting import planted

CORPUS = [
    (line.split()[0], int(line.split()[1]))
    for line in (Path(__file__).parent / "corpus.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("scenario", "seed"), CORPUS)
def test_a_seed_that_failed_once_holds(scenario: str, seed: int) -> None:
    assert simulate(load_scenario(scenario), seed).violation is None


@pytest.mark.parametrize(("scenario", "seed"), [("narrow", 15), ("leases", 27)])
def test_a_seed_that_failed_once_on_a_slow_network_holds(scenario: str, seed: int) -> None:
    loaded = load_scenario(scenario)
    network = loaded.network.model_copy(update={"delay_ms": (2.0, 60.0)})
    assert simulate(loaded.model_copy(update={"network": network}), seed).violation is None


@pytest.mark.parametrize("scenario", built_in())
@pytest.mark.parametrize("seed", [1_001, 1_002])
def test_every_scenario_holds(scenario: str, seed: int) -> None:
    assert simulate(load_scenario(scenario), seed).violation is None


@pytest.mark.parametrize("first", range(0, 200, 10))
def test_two_hundred_seeds_hold(first: int) -> None:
    scenario = load_scenario("mixed")
    found = {seed: simulate(scenario, seed, minutes=0.5).violation for seed in range(first, first + 10)}
    assert not any(found.values()), found


@pytest.mark.parametrize(("scenario", "minutes"), [("mixed", "0.5"), ("handover", "1.0")])
def test_the_same_seed_is_the_same_run_whatever_the_hash_seed(scenario: str, minutes: str) -> None:
    hashes = set()
    for hash_seed in ("0", "1", "4711"):
        command = [sys.executable, "-m", "slotreeve_cli", "sim", "run", "--scenario", scenario, "--seed", "5"]
        command += ["--minutes", minutes, "-o", "json"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        hashes.add(json.loads(done.stdout)["trace_hash"])
    assert len(hashes) == 1


def test_another_seed_is_another_run() -> None:
    scenario = load_scenario("mixed")
    assert len({simulate(scenario, seed, minutes=0.25).trace_hash for seed in (1, 2, 3)}) == 3


def test_a_thousand_publishers_live_many_times_as_fast_as_real_time() -> None:
    scenario = Scenario.model_validate({"workload": {"publishers": 1_000, "subscriptions": 100, "services": 100}})
    began = time.process_time()
    result = simulate(scenario, 3, minutes=2)
    assert result.violation is None
    # A quiet machine does more than 50. Beside other processes, which take their part of the caches, it did 40.
    assert result.virtual_seconds / (time.process_time() - began) > 20


def test_a_failing_run_shrinks_to_what_it_takes() -> None:
    scenario = load_scenario("mixed")
    with planted("same_epoch_for_new_process"):
        failing = next(r for r in (simulate(scenario, seed) for seed in range(10)) if r.violation is not None)
        shrunk = shrink(scenario, failing, most_runs=30)
        assert shrunk.result.violation is not None
        assert failing.violation is not None
        assert shrunk.result.violation.invariant == failing.violation.invariant
        assert len(shrunk.result.faults) <= len(failing.faults)
        again = simulate(scenario, failing.seed, cut=shrunk.cut)
    assert again.trace_hash == shrunk.result.trace_hash


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


@pytest.mark.parametrize("kind", FaultKind)
def test_a_cluster_that_suffers_from_one_kind_of_fault_only_gets_well(kind: FaultKind) -> None:
    scenario = Scenario.model_validate(
        {
            "nodes": {
                "election": "lock" if kind in STORE_FAULTS else "fle",
                "gateway": 2 if kind in GATEWAY_FAULTS else 0,
            },
            "workload": {"lease_callers": 2 if kind in GATEWAY_FAULTS else 0},
            "faults": {"kinds": {kind: 1.0}, "per_storm": [3, 6], "storm_seconds": 12.0},
            "minutes": 0.4,
        }
    )
    result = simulate(scenario, 1)
    assert result.violation is None
    assert result.faults


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
