"""The judge of chaos runs finds leases that end early or stay, and blames no lease that ends as it must (I16)."""

from __future__ import annotations

from typing import Any

import pytest
from slotreeve_chaos.checker import Checker, HistoryVerdict
from slotreeve_chaos.lease_checks import FAULT_SECONDS, HELD_SECONDS

Record = dict[str, Any]
TTL = 6.0


def leased(t: float, register_id: str = "a") -> Record:
    return {"t": t, "kind": "leased", "register_id": register_id, "service": "s", "ttl": TTL, "sent": t - 0.1}


def renewed(t: float, sent: float, *register_ids: str) -> Record:
    return {"t": t, "kind": "renewed", "register_ids": list(register_ids or ["a"]), "sent": sent}


def about(kind: str, t: float, register_id: str = "a") -> Record:
    return {"t": t, "kind": kind, "register_id": register_id}


def seen(t: float, version: int, *register_ids: str) -> Record:
    instances = dict.fromkeys(register_ids, 1)
    return {"t": t, "kind": "seen", "subscriber": "x", "service": "s", "version": version, "instances": instances}


def final(t: float, *register_ids: str) -> Record:
    return {"t": t, "kind": "final", "expected": {"s": dict.fromkeys(register_ids, 1)}}


def judge(*records: Record) -> HistoryVerdict:
    return Checker().check(records)


def broken(*records: Record) -> list[str]:
    return [violation.invariant for violation in judge(*records).violations]


KEPT = (leased(1.0), seen(1.1, 1, "a"), renewed(4.0, 3.9))


def test_a_lease_that_is_renewed_and_one_that_ends_after_its_time_are_good() -> None:
    verdict = judge(*KEPT, about("lapses", 5.0), seen(11.5, 2), final(20.0))
    assert verdict.violations == []
    assert verdict.leases == 1
    assert verdict.leases_gone_after_seconds == [pytest.approx(0.5)]


def test_a_lease_that_is_gone_before_its_time_to_live_has_passed_is_found() -> None:
    assert broken(*KEPT, seen(9.8, 2)) == ["I16"], "the renewal was sent at 3.9"
    assert broken(*KEPT, about("lapses", 5.0), seen(9.8, 2)) == ["I16"], "that nobody goes on renewing is no reason"
    assert broken(*KEPT, seen(10.0, 2)) == []


def test_only_a_renewal_that_was_acknowledged_counts_and_the_latest_of_them() -> None:
    assert broken(leased(1.0), seen(1.1, 1, "a"), seen(7.0, 2)) == []
    late_answer = renewed(6.0, 2.0)
    assert broken(*KEPT, late_answer, seen(9.8, 2)) == ["I16"], "an older renewal takes nothing back"


def test_a_lease_that_is_said_to_be_unknown_too_early_is_found() -> None:
    assert broken(*KEPT, about("unknown", 9.0)) == ["I16"]
    assert broken(*KEPT, about("unknown", 10.0)) == []


def test_a_lease_that_nobody_renews_and_that_stays_is_found_at_the_end() -> None:
    longest = 2 * TTL + HELD_SECONDS + FAULT_SECONDS
    lapsed = (*KEPT, about("lapses", 5.0))
    assert broken(*lapsed, final(4.9 + longest)) == []
    assert broken(*lapsed, final(5.1 + longest)) == ["I16"]
    late = {"t": 20.0, "kind": "late", "seconds": 1.0}
    assert broken(*lapsed, late, final(5.1 + longest)) == [], "the run itself did not see in time that it went"


def test_a_kept_lease_must_be_seen_at_the_end_and_something_that_was_no_lease_must_not() -> None:
    assert broken(*KEPT, seen(10.0, 2), final(20.0, "a")) == ["I8"]
    assert broken(*KEPT, final(9.0)) == ["I9"], "somebody renews it, and it is not among what was kept"
