"""Times as options."""

from __future__ import annotations

import pytest
import typer
from slotreeve_cli.times import parse_time


def test_what_is_no_time_is_wrong_usage() -> None:
    assert parse_time("--at", "10m", 700_000) == 100_000
    with pytest.raises(typer.BadParameter, match=r"--at 'soon' is no time; expected how long ago, such as 90s"):
        parse_time("--at", "soon", 0)
