"""What answers a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

PageHandler = Callable[[Request], Awaitable[Response]]
"""Answers a request. It raises SlotreeveError where it cannot."""
