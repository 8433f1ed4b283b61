"""The election suite can fail: it finds bugs that are planted in the elections."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_backend import ElectionBackend

import tests.conformance.fle_disk_bugs  # noqa: F401 - adds its bugs
from tests.conformance import fle_shell_bugs, lock_bugs
from tests.conformance.election_bugs import BUGS
from tests.election_fle.fle_backend import FleBackend
from tests.election_fle.test_fle_roles import (
    test_a_voter_that_awaits_admission_counts_neither_for_the_lease_nor_for_a_write as awaits_admission,
)
from tests.election_mysql.simulated_backend import HastyBackend

HARMLESS = {
    "logs_with_gaps": "the packets of a connection stay in order and none is lost before the connection is",
    "snapshot_drops_the_log": "at most one batch is under way, so nothing is logged after what is committed",
    "releases_what_is_not_its_own": "a node releases only a row in which it has just read its own name",
    "counts_before_admission": "a server that awaits admission votes for nobody, and is admitted only after a quorum "
    "without it has heard the leader",
    "refused_renewal_ignored": "the node's own lease ends before the row does, unless somebody changes the row by hand",
}
"""Bugs that break no promise of the election, with the reason; the suite cannot find them."""

GAPS = {
    "known_epoch_counted": "two servers lead under the same term only if a voter joins a candidate that has waited "
    "since before another leader was established, used and gone, by a vote that has been on its way for as long",
    "accepted_anew_unnoticed": "an operator would have to accept a database that was set back within one renewal, "
    "before the leader notices that it was",
}
"""Bugs that break a promise and are not found, with the reason."""

ELSEWHERE = {
    "older_epochs_will_do": "the suite does not know an election's files; tests/election_fle/test_fle_damage.py does",
}
"""Bugs that other tests plant and find, with the reason."""

SHARE = 0.95
"""At least so many of the bugs that are not harmless have to be found."""


class FleWithSmallSnapshots(FleBackend):
    options: Mapping[str, object] = MappingProxyType({"snapshot_every_writes": 20})


class FleSuite(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return FleWithSmallSnapshots()


class LockSuite(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return HastyBackend()


SUITES: dict[str, type[ElectionContract]] = {fle_shell_bugs.FLE: FleSuite, lock_bugs.LOCK: LockSuite}


def test_of_at_least_fifty_harmful_bugs_in_both_elections_nearly_all_are_to_be_found() -> None:
    harmful = BUGS.keys() - HARMLESS.keys()
    assert len(harmful) >= 50
    assert BUGS.keys() >= HARMLESS.keys() | GAPS.keys()
    assert not HARMLESS.keys() & GAPS.keys()
    assert {bug.election for bug in BUGS.values()} == SUITES.keys()
    assert len(harmful - GAPS.keys()) >= SHARE * len(harmful)


@pytest.mark.parametrize("name", BUGS)
def test_every_bug_can_be_planted(name: str) -> None:
    with BUGS[name].make():
        assert BUGS[name].what


def test_a_voter_that_counts_before_it_is_admitted_is_found_where_its_leader_is_tested_alone() -> None:
    with BUGS["counts_before_admission"].make(), pytest.raises(AssertionError):
        awaits_admission()
