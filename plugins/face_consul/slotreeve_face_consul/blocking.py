"""Blocking queries: callers that wait for a change, and those that go away meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable

from starlette.types import Receive

from slotreeve_face_consul.queries import ConsulQuery

JITTER = 16
"""As with Consul, up to a sixteenth of the wait is added to it, so that callers do not come back all at once."""


class ClientGone(Exception):
    """The caller has closed its connection."""


def wait_seconds(query: ConsulQuery, rng: random.Random) -> float:
    """How long a blocking query waits at most, with jitter."""
    return query.wait_seconds * (1 + rng.random() / JITTER)


async def unless_gone(waiting: Awaitable[bool], receive: Receive) -> None:
    """Await ``waiting``, and end early if the caller goes.

    Raises:
        ClientGone: it has gone.
    """
    task = asyncio.current_task()
    assert task is not None
    gone = asyncio.get_running_loop().create_task(_cancel_when_gone(receive, task))
    try:
        await waiting
    except asyncio.CancelledError:
        if gone.done() and not gone.cancelled() and task.uncancel() == 0:
            raise ClientGone from None
        raise
    finally:
        gone.cancel()


async def _cancel_when_gone(receive: Receive, waiting: asyncio.Task[object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    waiting.cancel()
