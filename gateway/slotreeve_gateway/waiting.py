"""Callers that wait for a change, for as long as they are there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


class Waiters:
    """Wakes all who wait at once. Use it on one event loop."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[bool]] = set()

    async def wait(self, seconds: float) -> bool:
        """Wait for :meth:`wake`, at most so many seconds. Whether it was called."""
        if seconds <= 0:
            return False
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(seconds, _give_up, woken)
        self._waiting.add(woken)
        try:
            return await woken
        finally:
            timer.cancel()
            self._waiting.discard(woken)

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def wake(self) -> None:
        """Something has changed."""
        waiting, self._waiting = self._waiting, set()
        for woken in waiting:
            if not woken.done():
                woken.set_result(True)


def _give_up(woken: asyncio.Future[bool]) -> None:
    if not woken.done():
        woken.set_result(False)


async def while_there(receive: Receive, work: Awaitable[T]) -> T:
    """The result of ``work``, which is cancelled where the caller goes away. ``receive`` is that of ASGI.

    Raises:
        ClientDisconnect: the caller has gone.
        And whatever ``work`` raises.
    """
    caller = asyncio.current_task()
    assert caller is not None
    # One task more for each who waits, not two: thousands may wait.
    gone = asyncio.get_running_loop().create_task(_gone(receive))
    gone.add_done_callback(cancel := _Cancel(caller))
    try:
        return await work
    except asyncio.CancelledError:
        if cancel.done and not caller.uncancel():
            raise ClientDisconnect from None
        raise
    finally:
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
