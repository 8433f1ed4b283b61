"""For command-line tools: an event loop, a client, or a transport alone for requests to meta servers."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from slotreeve.catalogue import build_plugin
from slotreeve.clock import MachineClock
from slotreeve.offers import Port
from slotreeve.ports import Context, Transport

from slotreeve_client import Client, ClientOptions, connect

T = TypeVar("T")


def open_client(sessions: list[str], cluster: str, **options: object) -> Client:
    """A client of these session servers, with these :class:`ClientOptions`. Raises ClientError, PluginError."""
    return connect(*sessions, options=ClientOptions.model_validate({"cluster": cluster, **options}))


def open_transport(name: str = "zmq") -> Transport:
    """A transport for a tool. Raises PluginError."""
    transport = build_plugin(Port.TRANSPORT, name, tool_context())
    assert isinstance(transport, Transport)
    return transport


async def asked(question: Callable[[Transport], Awaitable[T]]) -> T:
    """What the question returns, asked over a transport of its own. Raises what it raises, and PluginError."""
    transport = open_transport()
    try:
        return await question(transport)
    finally:
        await transport.close()


def tool_context(slots: int = 0) -> Context:
    """The context in which a tool, which belongs to no cluster, builds a plugin."""
    return Context("", slots, MachineClock(), random.Random(secrets.randbits(64)))


def run_async(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end on a new event loop (uvloop if it is installed); return its result."""
    with asyncio.Runner(loop_factory=_event_loop()) as runner:
        return runner.run(coroutine)


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
