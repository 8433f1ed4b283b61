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
        return problem(405, str(error), error.code, error.allowed)
    status = 415 if isinstance(error, WrongMedia) else status_of(error)
    return problem(status, str(error), error.code)


async def while_there(receive: Receive, work: Coroutine[Any, Any, T], counters: dict[str, int]) -> T:
    """The result of ``work``, which is cancelled where the caller goes away. ``counters`` are those of the face.

    Raises:
        ClientDisconnect: the caller has gone.
        And whatever ``work`` raises.
    """
    caller = asyncio.current_task()
    assert caller is not None
    # One task more for each who waits, not two: thousands may wait.
    gone = asyncio.get_running_loop().create_task(_gone(receive))
    gone.add_done_callback(cancel := _Cancel(caller))
    counters["rest_waiting"] += 1
    try:
        return await work
    except asyncio.CancelledError:
        if cancel.done and not caller.uncancel():
            raise ClientDisconnect from None
        raise
    finally:
        counters["rest_waiting"] -= 1
        gone.remove_done_callback(cancel)
        gone.cancel()


class _Cancel:
    """Cancels a task when another one is done. ``done``: it has."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task, self.done = task, False

    def __call__(self, ended: asyncio.Task[None]) -> None:
        self.done = self._task.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # the rest of a body that nobody reads
