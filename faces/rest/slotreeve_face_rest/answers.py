"""Answers, and waiting for as long as the caller is there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from slotreeve.errors import SlotreeveError
from slotreeve_gateway.http import problem, status_of
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive

from slotreeve_face_rest.bodies import WrongMedia
from slotreeve_face_rest.routes import NoSuchMethod

T = TypeVar("T")
_JSON = {"Content-Type": "application/json", "Cache-Control": "no-store"}


def json_answer(body: bytes, status: int = 200, **headers: str) -> Response:
    """JSON that nobody keeps: the next caller asks again."""
    return Response(body, status, _JSON | headers)


def refused(error: SlotreeveError) -> Response:
    """The answer to an error: problem+json with its code."""
    if isinstance(error, NoSuchMethod):
        answer = problem(405, str(error), error.code)
        answer.headers["Allow"] = ", ".join(error.allowed)
        return answer
    status = 415 if isinstance(error, WrongMedia) else status_of(error)
    return problem(status, str(error), error.code)


async def while_there(receive: Receive, work: Coroutine[Any, Any, T], counters: dict[str, int]) -> T:
    """The result of ``work``, which is cancelled where the caller goes away. ``counters`` are those of the face.

    Raises:
        ClientDisconnect: the caller has gone.
        And whatever ``work`` raises.
    """
    loop = asyncio.get_running_loop()
    working, gone = loop.create_task(work), loop.create_task(_gone(receive))
    counters["rest_waiting"] += 1
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        counters["rest_waiting"] -= 1
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # the rest of a body that nobody reads
