"""One short run for each kind of fault."""

from __future__ import annotations

import pytest
from slotreeve_simulator.fault_kinds import GATEWAY_FAULTS, STORE_FAULTS, FaultKind
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import Scenario

import tests.simulation.planted_bugs  # noqa: F401 - adds its bugs


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
