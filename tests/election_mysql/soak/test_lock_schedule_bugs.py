"""Bugs planted in the lock election that schedules find on a real database: on PostgreSQL, which starts fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_election_mysql.sql_table import SqlLockTable
from slotreeve_election_mysql.state import CopiedState
from slotreeve_election_mysql.statements import Batch, Statements

from tests.conformance.lock_bugs import lock_lease_from_receipt
from tests.election_mysql.real import test_lock_interleavings as interleavings
from tests.election_mysql.real import test_lock_schedules as schedules
from tests.simulation.planting import Patch, both, replaced

pytestmark = pytest.mark.processes


def applies_what_follows_a_gap() -> Patch:
    """A defect of old: after a write without an answer the leader reads what is committed, while that write still holds
    the row, and takes its next write for the change that follows."""
    return both(
        replaced(SqlLockTable, "settled_index", SqlLockTable.index),
        replaced(CopiedState, "follows", lambda _self, _change: True),
    )


def writes_without_the_lock_of_the_row() -> Patch:
    original = Statements.hold

    def hold(self: Statements, key: str) -> Batch:
        return tuple(replace(each, text=each.text.replace(" FOR UPDATE", "")) for each in original(self, key))

    return replaced(Statements, "hold", hold)


def takes_over_whatever_the_row_says_by_now() -> Patch:
    """No check of expiry, nor of what was read before."""

    def take_over(self: Statements, _seen: Any, owner: str, term: int, duration_ms: int) -> Batch:
        return self._change_row(
            f"owner = %s, duration = %s, term = %s, term_duration = 0, gmt_modified = {self._dialect.now}",
            (owner, duration_ms, term),
            "1 = 1",
            (),
        )

    return replaced(Statements, "take_over", take_over)


def stalled_commit(server: SqlServer) -> None:
    schedules.test_a_write_whose_commit_stalls_and_succeeds_is_read_before_the_next_one_is_made(server.dialect, server)


Found = Callable[[SqlServer], None]


@pytest.mark.parametrize(
    ("plant", "scenario"),
    [
        (applies_what_follows_a_gap, stalled_commit),
        (
            writes_without_the_lock_of_the_row,
            interleavings.test_a_take_over_and_a_write_of_the_old_leader_in_any_order_of_their_statements_lose_nothing,
        ),
        (
            takes_over_whatever_the_row_says_by_now,
            interleavings.test_two_take_overs_in_any_order_of_their_statements_make_one_leader,
        ),
        (
            lock_lease_from_receipt,
            schedules.test_a_renewal_whose_answer_comes_late_counts_from_its_sending,
        ),
    ],
)
def test_a_planted_bug_is_found(plant: Callable[[], Patch], scenario: Found, postgres: SqlServer) -> None:
    with plant(), pytest.raises(AssertionError):
        scenario(postgres)
