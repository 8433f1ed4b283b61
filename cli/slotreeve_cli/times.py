"""Times on the command line."""

from __future__ import annotations

from datetime import tzinfo

import typer
from slotreeve.errors import ModelError
from slotreeve_events import times
from slotreeve_events.times import shown_time

__all__ = ["parse_time", "shown_time"]


def parse_time(option: str, text: str, now_ms: int, zone: tzinfo | None = None) -> int:
    """A moment in milliseconds since 1970; see :func:`slotreeve_events.times.parse_time`.

    Raises:
        typer.BadParameter: it is no time.
    """
    try:
        return times.parse_time(option, text, now_ms, zone)
    except ModelError as error:
        raise typer.BadParameter(str(error)) from None
