"""Callers that wait, counted."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from slotreeve_gateway import while_there
from starlette.types import Receive

T = TypeVar("T")


async def counted_while_there(receive: Receive, work: Awaitable[T], counters: dict[str, int]) -> T:
    """See :func:`slotreeve_gateway.while_there`. ``counters`` are those of the face."""
    counters["rest_waiting"] += 1
    try:
        return await while_there(receive, work)
    finally:
        counters["rest_waiting"] -= 1
