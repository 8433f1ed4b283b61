"""Connections that break again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SHORTEST_FLAP_SECONDS, LONGEST_FLAP_SECONDS = 0.05, 1.5


def again_and_again(strike: Callable[[], object], amount: float) -> Callable[[], None]:
    """Strike now, and again after each pause, until the fault ends. Returns the function that ends it. ``amount``: from
    0, the shortest pause, to 1, the longest one."""
    seconds = SHORTEST_FLAP_SECONDS * (LONGEST_FLAP_SECONDS / SHORTEST_FLAP_SECONDS) ** amount
    timer: asyncio.TimerHandle | None = None

    def once_more() -> None:
        nonlocal timer
        strike()
        timer = asyncio.get_running_loop().call_later(seconds, once_more)

    def end() -> None:
        if timer is not None:
            timer.cancel()

    once_more()
    return end
