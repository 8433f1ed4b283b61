"""Durations as Consul writes them, which are those of Go: ``10s``, ``1m30s``, ``500ms``. Pure."""

from __future__ import annotations

import re

from slotreeve.errors import ModelError

LONGEST_TEXT = 40
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def seconds_of(what: str, text: str) -> float:
    """A duration in seconds. ``what`` names it in the message.

    Raises:
        ModelError: it is not a duration, or is less than 0.
    """
    if text == "0":
        return 0.0
    seconds, place = 0.0, 0
    while len(text) <= LONGEST_TEXT and (part := _PART.match(text, place)):
        seconds += float(part[1]) * _UNITS[part[2]]
        place = part.end()
    if not text or place < len(text):
        raise ModelError(f"{what} is {text[:LONGEST_TEXT]!r}; expected a number with a unit, such as 10s or 1m30s")
    return seconds


def text_of(seconds: float) -> str:
    """A duration for :func:`seconds_of`."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
