"""The record of a lease, and what may be registered."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES, MAX_ZONE_LENGTH, Publisher
from slotreeve_protocol.leases import (
    LONGEST_LEASE_ID,
    check_lease,
    is_lease,
    lease_id_of,
    lease_record,
    ttl_seconds_of,
)


@given(st.text(min_size=1), st.text(min_size=1), st.integers(1, 86_400_000))
def test_the_record_of_a_lease_says_what_was_registered(lease_id: str, service: str, ttl_ms: int) -> None:
    record = lease_record(lease_id, service, 7, ttl_ms, "z", (b"x",))
    assert (lease_id_of(record.register_id), record.data_info_id) == (lease_id, service)
    assert (ttl_seconds_of(record), record.data, record.is_tombstone) == (ttl_ms / 1000, (b"x",), False)
    assert is_lease(record)
    assert lease_record(lease_id, service, 8, ttl_ms, "z", None).is_tombstone


def test_the_same_lease_id_in_two_services_has_two_register_ids() -> None:
    assert lease_record("a", "s", 1, 1000, "", ()).register_id != lease_record("a", "t", 1, 1000, "", ()).register_id


def test_the_order_of_records_does_not_depend_on_the_time_to_live() -> None:
    assert lease_record("a", "s", 2, 1000, "", ()).newer_than(lease_record("a", "s", 1, 60_000, "", ()))


def test_the_record_of_a_client_is_no_lease() -> None:
    assert not is_lease(Publisher("client-1", "s", 1, 1, "session-1@77", "", (b"x",)))


@pytest.mark.parametrize(
    ("lease_id", "ttl", "data", "problem"),
    [
        ("", 30.0, (), "is empty"),
        ("x" * (LONGEST_LEASE_ID + 1), 30.0, (), f"has {LONGEST_LEASE_ID + 1} characters"),
        ("a", 0.9, (), "is 0.9 s; it must be a number from 1 to 86400"),
        ("a", 86_401, (), "must be a number from 1"),
        ("a", math.nan, (), "must be a number from 1"),
        ("a", math.inf, (), "must be a number from 1"),
        ("a", 30.0, (b"x" * MAX_PAYLOAD_BYTES, b"y"), "too many"),
    ],
)
def test_what_cannot_be_good_is_refused(lease_id: str, ttl: float, data: tuple[bytes, ...], problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        check_lease(lease_id, ttl, data, "")


def test_the_bounds_themselves_are_good() -> None:
    check_lease("x" * LONGEST_LEASE_ID, 1.0, (b"x" * MAX_PAYLOAD_BYTES,), "z" * MAX_ZONE_LENGTH)
    check_lease("a", 86_400.0, (), "")
