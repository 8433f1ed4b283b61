"""The simulator at length: its speed, and how it shrinks a failing run."""

from __future__ import annotations

import time

from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import Scenario, load_scenario
from slotreeve_simulator.shrink import shrink

import tests.simulation.planted_bugs  # noqa: F401 - adds its bugs
from tests.simulation.planting import planted


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
