"""Ranges of options as combinations, and the configuration of one of them."""

from __future__ import annotations

import tomllib

import pytest
from slotreeve.errors import ConfigError, PluginError
from slotreeve_spark.compare.balancers import BalancerQuestion, cells
from slotreeve_spark.compare.tuning import snippet, variants


def test_ranges_become_every_combination() -> None:
    found = variants("moves_per_server=4..64, tolerance=0..2")
    assert len(found) == 15
    assert [each["moves_per_server"] for each in found[::3]] == [4, 8, 16, 32, 64]
    assert [each["tolerance"] for each in found[:3]] == [0, 1, 2]


def test_values_may_be_listed_or_fractions_or_words() -> None:
    assert variants("a=1|5..7,b=follows") == tuple({"a": a, "b": "follows"} for a in (1, 5, 6, 7))
    assert [each["a"] for each in variants("a=0..0.5")] == [0, 0.125, 0.25, 0.375, 0.5]
    assert [each["a"] for each in variants("a=0..50")] == [0, 1, 2, 4, 8, 16, 32, 50]


@pytest.mark.parametrize("text", ["", "a", "a=", "a=2..1", "a=x..y", "a=1,a=2", "a=0..4,b=0..4,c=0..4"])
def test_what_is_no_range_is_a_clear_error(text: str) -> None:
    with pytest.raises(ConfigError, match="--parameters"):
        variants(text)


def test_the_options_model_of_the_plugin_refuses_what_it_does_not_know() -> None:
    with pytest.raises(PluginError, match="moves_per_serve"):
        BalancerQuestion(("even",), options=variants("moves_per_serve=1..2"))
    with pytest.raises(PluginError, match="tolerance"):
        BalancerQuestion(("even",), options=variants("tolerance=-1..1"))


def test_each_combination_is_a_competitor() -> None:
    asked = BalancerQuestion(("even",), seeds=1, kinds=("scale out by one",), options=variants("tolerance=0..1"))
    assert [cell.competitor for cell in cells(asked)] == ["even tolerance=0", "even tolerance=1"]


def test_the_snippet_is_configuration() -> None:
    text = snippet("default", {"threshold_percent": 5, "demoted_leader": "follows"})
    assert tomllib.loads(text)["balancer"] == {
        "use": "default",
        "default": {"threshold_percent": 5, "demoted_leader": "follows"},
    }


def test_what_is_to_be_pasted_is_toml_whatever_is_in_it() -> None:
    pasted = tomllib.loads(snippet("my \U0001f600", {"a": None, "b": "\U0001f600", "c": 1.5, "d": True}))
    assert pasted == {"balancer": {"use": "my \U0001f600", "my \U0001f600": {"b": "\U0001f600", "c": 1.5, "d": True}}}


def test_very_many_combinations_are_refused_before_they_are_made() -> None:
    with pytest.raises(ConfigError, match=f"{5**30} combinations; at most"):
        variants(",".join(f"p{n}=0..4" for n in range(30)))
