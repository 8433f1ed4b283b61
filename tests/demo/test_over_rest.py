"""What the demonstration reads over REST."""

from __future__ import annotations

import pytest
from slotreeve.errors import ClientError
from slotreeve_demo.over_rest import read_over_rest
from slotreeve_harness.free_ports import free_address

NAMES = ["com.example.a/b", "com.example.S"]


def test_a_gateway_that_does_not_answer_is_an_error_that_names_it() -> None:
    address = free_address()
    with pytest.raises(ClientError, match=f"the gateway at {address} does not answer"):
        read_over_rest(address, NAMES)
