"""The operator's overrides as one client follows them."""

from __future__ import annotations

import pytest
from slotreeve_client.overriding import OverridesInForce
from slotreeve_protocol.overrides import Override, Overrides


def test_the_newest_overrides_that_can_be_read_are_in_force(caplog: pytest.LogCaptureFixture) -> None:
    followed = OverridesInForce()
    assert followed.of("s") is None
    followed.take(None)
    assert followed.of("s") == {}
    followed.take(Overrides().changed("s", "a", Override(drain=True)).encode())
    assert followed.of("s") == {"a": Override(drain=True)}
    assert not caplog.records
    followed.take(b"rubbish")
    assert "slotreeve override writes it; the overrides before it stay in force" in caplog.text
    assert followed.of("s") == {"a": Override(drain=True)}
    followed.take(None)
    assert followed.of("s") == {}


def test_where_the_first_value_cannot_be_read_there_are_none() -> None:
    followed = OverridesInForce()
    followed.take(b"rubbish")
    assert followed.of("s") == {}
