"""Bounds of the product that a scenario changes."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import getsource
from pathlib import Path

import pytest
from slotreeve.errors import ConfigError
from slotreeve_servers.session.push import push
from slotreeve_simulator import bounds
from slotreeve_simulator.scenario import built_in, load_scenario

NAME = "slotreeve_servers.session.push.push.HISTORY"


def test_a_bound_is_another_one_for_the_time_of_a_run_and_afterwards_as_it_was() -> None:
    before, seen = push.HISTORY, list[int]()

    def fail() -> None:
        with bounds.changed({NAME: 2}):
            seen.append(push.HISTORY)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (seen, push.HISTORY) == ([2], before)


@pytest.mark.parametrize(
    "name",
    [
        "HISTORY",
        "slotreeve_servers.nowhere.HISTORY",
        "socket.AF_INET",
        "slotreeve_servers.session.push.push.MISSING",
        "slotreeve_servers.session.push.push.COST_FACTOR",
        "slotreeve_servers.session.push.push.PushGroup",
    ],
)
def test_what_is_no_bound_is_refused_in_words(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'[bounds]\n"{name}" = 2\n')
    with pytest.raises(ConfigError, match=f"bounds: {name}: "):
        load_scenario(str(file))


def test_the_bounds_of_the_built_in_scenario_are_smaller_than_those_of_the_product() -> None:
    small = load_scenario("small").bounds
    assert len(small) > 30
    for name, value in small.items():
        assert 1 <= value < bounds.bound(name)[2], name


@pytest.mark.parametrize("scenario", built_in())
def test_the_module_of_each_bound_reads_it(scenario: str) -> None:
    """A module that only defines a number, which others import, would be changed in vain."""
    for name in load_scenario(scenario).bounds:
        module, _, constant = name.rpartition(".")
        found = re.findall(rf"\b{constant}\b", getsource(import_module(module)))
        assert len(found) > 1, f"{scenario}: nothing in {module} reads {constant}; name the module that does"
