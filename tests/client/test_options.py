"""The options of a client."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from slotreeve_client.options import ClientOptions


def test_the_defaults_detect_a_silent_server_before_a_request_times_out() -> None:
    options = ClientOptions()
    assert options.ping_seconds + options.silence_seconds < options.request_seconds
    assert options.batch <= options.window


@pytest.mark.parametrize(
    ("key", "value"),
    [("clutser", "x"), ("ping_seconds", 0), ("silence_seconds", -1), ("window", 0), ("batch", 0), ("batch", 10_001)],
)
def test_an_unknown_option_or_an_impossible_value_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValidationError):
        ClientOptions.model_validate({key: value})


def test_options_are_frozen_and_described() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        ClientOptions().cluster = "another"
    assert all(field.description for field in ClientOptions.model_fields.values())
