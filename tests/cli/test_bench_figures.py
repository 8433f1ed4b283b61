"""The figures of measurements as a table."""

from __future__ import annotations

import pytest
from slotreeve_cli.bench import print_figures


def test_figures_are_printed_whatever_their_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of ``bench busy`` are three deep; it ended with a traceback where it should print them."""
    busy = {"held": 5, "seconds_of": {"publish": 1.5, "kill": 2}, "times_what_the_share_explains": {"publish": 1.0}}
    print_figures("busy", {"runs": 5, "ms": {"p50": 0.5, "count": 1_000}, "each": [1, 2_000], "one_processor_0": busy})
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for line in (
        "runs 5",
        "ms p50 0.5 count 1,000",
        "each 1, 2,000",
        "one processor 0 held 5",
        "one processor 0 seconds of publish 1.5 kill 2",
        "one processor 0 times what the share explains publish 1.0",
    ):
        assert line in shown
