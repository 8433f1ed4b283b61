"""The operator's standing orders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve_protocol.orders import Orders

NAMES = st.frozensets(st.text(min_size=1, max_size=5), max_size=4)


@given(st.builds(Orders, NAMES, st.booleans(), NAMES, NAMES, st.booleans()))
def test_orders_read_back_as_they_were_written(orders: Orders) -> None:
    assert Orders.decode(orders.encode()) == orders


@given(st.lists(st.text(min_size=1, max_size=5), max_size=6, unique=True), st.randoms(use_true_random=False))
def test_equal_orders_have_equal_json(names: list[str], rng: object) -> None:
    assert Orders(banned=frozenset(names)).encode() == Orders(banned=frozenset(reversed(names))).encode()


def test_no_value_and_an_empty_object_stand_for_empty_orders() -> None:
    assert Orders.decode(None) == Orders() == Orders.decode(b"{}")
    assert Orders().encode() == b"{}"


@pytest.mark.parametrize("value", [b"", b"[]", b'{"banned": 3}', b'{"baned": []}', b"\xff"])
def test_a_value_that_is_not_the_json_of_orders_is_refused(value: bytes) -> None:
    with pytest.raises(ModelError, match=r"provided configuration 'slotreeve\.intent': .*; slotreeve admin writes it"):
        Orders.decode(value)


def test_orders_are_told_in_sentences() -> None:
    assert str(Orders()) == "none"
    orders = Orders(frozenset({"data-9", "data-1"}), True, frozenset({"canary"}), frozenset({"bad"}), True)
    assert str(orders) == (
        "data-1 is banned; data-9 is banned; pushes are stopped, but to canary; what bad publishes is off; "
        "no registration ends unless its provider withdraws it"
    )
