"""What the benchmark offers before anything runs."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from slotreeve_bench.suite import BenchPlan
from slotreeve_harness.measurements import Measurement
from slotreeve_harness.processes import ClusterSize


def test_the_report_names_the_machine_and_the_cluster() -> None:
    described = BenchPlan(ClusterSize(1, 2, 3), settings={"cluster.slots": 16}).described()
    assert described["cluster"] == {
        "meta": 1,
        "data": 2,
        "session": 3,
        "settings": {"cluster.slots": 16},
        "keys": False,
    }
    machine = described["machine"]
    assert isinstance(machine, dict)
    assert machine.keys() == {"processors", "python", "system"}


@pytest.mark.parametrize("measurement", Measurement)
def test_every_measurement_has_its_own_module(measurement: Measurement) -> None:
    assert find_spec(f"slotreeve_bench.{measurement}") is not None
