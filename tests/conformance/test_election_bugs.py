"""The election suite can fail: it finds bugs that are planted in the elections."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_backend import ElectionBackend

from tests.conformance import fle_bugs, lock_bugs
from tests.conformance.election_bugs import BUGS, found
from tests.election_fle.test_fle_contract import FleBackend
from tests.election_mysql.test_lock_contract import HastyBackend

NOT_FOUND = {
    "known_epoch_counted": "the second candidate would have to be elected within the handshake of the first one; the "
    "simulator finds `accept_lower_term`",
    "first_lease_from_receipt": "packets would have to travel for longer than candidates wait for a better vote, and "
    "the pings that follow at once renew the lease",
    "candidate_breaks_its_promise": "a quorum has another voter with the promise in nearly every case",
    "history_acknowledged_before_logged": "the loss of power has to come within one sync of a synchronisation, on "
    "every server that has what is lost",
    "leads_without_a_quorum_of_histories": "a quorum has acknowledged the epoch just before, and is synchronising",
    "group_commit_drops_writes": "the leader replaces such a log when its server is back; it would have to be elected",
    "logs_with_gaps": "harmless: the packets of a connection stay in order and none is lost before the connection is",
    "snapshot_drops_the_log": "harmless: at most one batch is under way, so nothing is logged after what is committed",
    "releases_what_is_not_its_own": "harmless: a node releases only a row in which it has just read its own name",
    "refused_renewal_ignored": "harmless unless the row is changed by hand: the node's own lease ends before the row",
}
"""Bugs that the suite does not find, and why."""


class FleWithSmallSnapshots(FleBackend):
    options: Mapping[str, object] = MappingProxyType({"snapshot_every_writes": 20})


class FleSuite(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return FleWithSmallSnapshots()


class LockSuite(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return HastyBackend()


SUITES: dict[str, type[ElectionContract]] = {fle_bugs.FLE: FleSuite, lock_bugs.LOCK: LockSuite}


def test_there_are_at_least_fifty_bugs_in_both_elections_and_most_are_to_be_found() -> None:
    assert len(BUGS) >= 50
    assert {bug.election for bug in BUGS.values()} == SUITES.keys()
    assert BUGS.keys() >= NOT_FOUND.keys()
    assert len(NOT_FOUND) <= 10


@pytest.mark.parametrize("name", BUGS)
def test_every_bug_can_be_planted(name: str) -> None:
    with BUGS[name].make():
        assert BUGS[name].what


@pytest.mark.search
@pytest.mark.parametrize("name", [name for name in BUGS if name not in NOT_FOUND])
def test_a_bug_in_an_election_is_found(name: str) -> None:
    assert found(SUITES[BUGS[name].election], BUGS[name].make) is not None


@pytest.mark.search
@pytest.mark.parametrize("election", SUITES)
def test_without_a_bug_nothing_is_found(election: str) -> None:
    for seed in range(4):
        suite = SUITES[election]()
        suite._record = lambda _name, _value: None
        assert suite._stay_linearizable(seed, nodes=3 + 2 * (seed % 2)) > 1_000
