"""Waiting for as long as the caller is there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


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
