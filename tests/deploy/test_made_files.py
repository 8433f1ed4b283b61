"""What stands below deploy/ is what the code says, and what others read of it is good."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from slotreeve_servers.node.counted import COUNTED, CounterKind

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_deploy", ROOT / "deploy/make_deploy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_those_that_the_code_makes(made: ModuleType) -> None:
    assert made.changed(made.files().items()) == [], "run python deploy/make_deploy.py"
    units = {path.name for path in (ROOT / "deploy/systemd").glob("*.service")}
    assert units == {path.name for path in made.files() if path.suffix == ".service"}


def test_each_number_that_is_quiet_in_a_quiet_cluster_has_a_rule(made: ModuleType) -> None:
    rules = {rule.expression for rule in made.of_counters()}
    quiet = {made.metric(name) for name, counted in COUNTED.items() if counted.quiet}
    assert len(rules) == len(quiet)
    assert all(any(metric in rule for rule in rules) for metric in quiet)
    rising = [name for name, counted in COUNTED.items() if counted.kind is CounterKind.COUNTER]
    assert all(made.metric(name).endswith("_total") for name in rising)


def test_the_dashboard_has_panels_that_do_not_overlap_each_with_a_query(made: ModuleType) -> None:
    panels = json.loads(made.dashboard())["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places) > 10
    assert all(panel["targets"] for panel in panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
