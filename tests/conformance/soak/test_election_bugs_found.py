"""The election suite can fail: it finds bugs that are planted in the elections."""

from __future__ import annotations

import pytest

import tests.conformance.fle_disk_bugs  # noqa: F401 - adds its bugs
from tests.conformance.election_bugs import BUGS, found, suite_of
from tests.conformance.test_election_bugs import ELSEWHERE, GAPS, HARMLESS, SUITES


@pytest.mark.parametrize("name", [name for name in BUGS if name not in HARMLESS | GAPS | ELSEWHERE])
def test_a_bug_in_an_election_is_found(name: str) -> None:
    problems = found(SUITES[BUGS[name].election], BUGS[name])
    assert problems[-1], f"every contract holds; only {problems[:-1] or 'nothing'}"


@pytest.mark.parametrize("election", SUITES)
def test_without_a_bug_nothing_is_found(election: str) -> None:
    for seed in range(4):
        assert suite_of(SUITES[election])._stay_linearizable(seed, nodes=3 + 2 * (seed % 2)) > 1_000
