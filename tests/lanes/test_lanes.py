"""Lanes follow from paths, every test has one, and a soak tells what it did, also if it is interrupted."""

from __future__ import annotations

import json
from pathlib import Path, PurePath

import pytest
from slotreeve_simulator.scenario import built_in

from tests.lanes.durations import table_of
from tests.lanes.lanes import ROOT, Lane, arguments, folders, lane_of
from tests.lanes.page import Failure, Part, Soak, html_of, write_pages
from tests.lanes.soak import first_seed, keep, order


@pytest.mark.parametrize(
    ("path", "lane"),
    [
        ("tests/kernel/test_slots.py", Lane.CHECK),
        ("tests/faces/consul/real/test_clients.py", Lane.TEST),
        ("tests/simulation/corpus/test_corpus.py", Lane.TEST),
        ("tests/scenarios/test_loads.py", Lane.TEST),
        ("tests/servers/long/test_large_turns.py", Lane.TEST),
        ("tests/processes/soak/test_chaos.py", Lane.SOAK),
        ("tests/a/soak/real/test_b.py", Lane.SOAK),
    ],
)
def test_a_lane_follows_from_the_path(path: str, lane: Lane) -> None:
    assert lane_of(PurePath(path)) is lane


def test_every_module_of_tests_is_in_exactly_one_lane_and_none_is_forgotten() -> None:
    modules = {path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")}
    given = [*arguments(Lane.TEST), *arguments(Lane.TEST, spark=True)]
    given += [*arguments(Lane.SOAK), *arguments(Lane.SOAK, spark=True)]
    for module in modules:
        reached = [folder for folder in given if module.is_relative_to(folder)]
        assert len(reached) == (lane_of(module) is not Lane.CHECK), module
    assert {lane_of(module) for module in modules} == set(Lane)
    assert arguments(Lane.CHECK)[0] == "tests"
    assert all(lane_of(PurePath(folder)) is Lane.SOAK for folder in folders(Lane.SOAK))


def test_another_day_and_another_commit_have_other_seeds_and_each_scenario_has_its_turn() -> None:
    assert len({first_seed("2026-01-01", "a"), first_seed("2026-01-02", "a"), first_seed("2026-01-01", "b")}) == 3
    assert first_seed("2026-01-01", "a") == first_seed("2026-01-01", "a")
    tried = order(7)
    first = [next(tried) for _ in built_in()]
    assert sorted(name for name, _ in first) == built_in()
    assert {seed for _, seed in first} == {7}
    assert next(tried)[1] == 8


def test_a_failing_seed_is_appended_to_the_corpus_once(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("# Seeds.\nmixed 4\n")
    keep(corpus, "mixed", 99, "I7: a\nb", "Found on a day")
    keep(corpus, "mixed", 99, "I7: again", "Found on another day")
    keep(corpus, "mixed", 4, "I7", "Found on a day")
    assert corpus.read_text() == "# Seeds.\nmixed 4\n# Found on a day: I7: a b\nmixed 99\n"


def test_a_page_says_what_failed_how_to_repeat_it_and_what_was_not_reached(tmp_path: Path) -> None:
    failure = Failure("tests/a.py::test_b[<x>]", "./run test 'tests/a.py::test_b[<x>]'", "assert 1 == 2")
    part = Part("tests", 90.0, ["tests/a.py::test_b[<x>]"], [failure], ["tests/a.py::test_c"])
    made = Soak("2026-01-01T00:00:00+00:00", "abc", 5.0, 17, [part], interrupted=True)
    page = html_of(made)
    for text in ("test_b[&lt;x&gt;]", "./run test", "assert 1 == 2", "test_c", "interrupted", "fresh seed 17"):
        assert text in page
    assert "http" not in page
    assert "1 ran in 1.5 min, 1 failed, 1 not reached" in made.summary
    assert write_pages(made, tmp_path).name == "soak.html"
    read = json.loads((tmp_path / "soak.json").read_text())
    assert read["parts"][0]["failures"][0]["command"] == failure.command


def test_where_the_time_goes_is_a_table_of_the_longest_modules(tmp_path: Path) -> None:
    progress = tmp_path / "check.jsonl"
    told = [
        {"id": f"tests/test_{n}.py::test_a", "outcome": "passed", "seconds": 1.0 + n, "text": ""} for n in range(14)
    ]
    progress.write_text("".join(json.dumps(line) + "\n" for line in [*told, told[13] | {"id": "tests/test_13.py::b"}]))
    lines = table_of("check", progress).splitlines()
    assert lines[2] == "| `tests/test_13.py` | 2 | 28 | 24 % |"
    assert lines[-2:] == ["| 2 others | 2 | 3 | 3 % |", "| all | 15 | 119 | 100 % |"]
