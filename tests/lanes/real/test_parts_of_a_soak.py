"""A part of a soak tells what failed and what it did not reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lanes.soak import run_tests

pytestmark = pytest.mark.processes


def test_tests_that_fail_and_tests_that_are_not_reached_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2\n"
        "def test_in_which_it_ends(): raise KeyboardInterrupt\n"
        "def test_after(): pass\n"
    )
    given = [str(tmp_path / "test_some.py"), "-c", os.devnull, "--rootdir", str(tmp_path)]
    part = run_tests("some", given, tmp_path, 1, 600.0)
    assert [name.rpartition("::")[2] for name in part.ran] == ["test_good", "test_bad"]
    assert [failure.name.rpartition("::")[2] for failure in part.failures] == ["test_bad"]
    assert "assert 1 == 2" in part.failures[0].text
    assert [name.rpartition("::")[2] for name in part.missed] == ["test_in_which_it_ends", "test_after"]


def test_a_run_that_runs_nothing_is_a_failure_and_one_without_time_is_not(tmp_path: Path) -> None:
    part = run_tests("some", ["tests/nowhere"], tmp_path, 1, 600.0)
    assert [failure.text for failure in part.failures] == [f"nothing ran; see {tmp_path / 'some.log'}"]
    part = run_tests("some", ["tests/nowhere"], tmp_path, 1, 0.0)
    assert (part.failures, part.missed) == ([], ["tests/nowhere"])
