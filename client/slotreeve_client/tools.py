"""For command-line tools: an event loop, a client, or a transport alone for requests to meta servers."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from slotreeve.catalogue import build_plugin
from slotreeve.clock import MachineClock
from slotreeve.key_files import load_keys
from slotreeve.keys import KeyPair
from slotreeve.offers import Port
from slotreeve.ports import Context, Transport
from slotreeve.ports.transport import KeyMaker

from slotreeve_client import Client, ClientOptions, connect

T = TypeVar("T")


OWN_KEY = "SLOTREEVE_OWN_KEY"
"""The environment variable that names the file with the secret key of whoever uses a tool."""
TRUSTED_KEYS = "SLOTREEVE_TRUSTED_KEYS"
"""The one that names the file with the keys of all servers, where it does not stand beside the other file."""


def client_options(cluster: str, **options: object) -> ClientOptions:
    """These :class:`ClientOptions`, with the keys that the environment names."""
    keys = {"own_key": os.environ.get(OWN_KEY, ""), "trusted_keys": os.environ.get(TRUSTED_KEYS, "")}
    return ClientOptions.model_validate({"cluster": cluster, **keys, **options})


def open_client(sessions: list[str], cluster: str, **options: object) -> Client:
    """A client of these session servers, with :func:`client_options`. Raises ClientError, PluginError, ConfigError."""
    return connect(*sessions, options=client_options(cluster, **options))


def open_transport(name: str = "zmq", own_key: str = "") -> Transport:
    """A transport for a tool, with this file of keys, or with those that the environment names. Raises PluginError,
    ConfigError."""
    keys = load_keys(own_key) if own_key else load_keys(os.environ.get(OWN_KEY, ""), os.environ.get(TRUSTED_KEYS, ""))
    transport = build_plugin(Port.TRANSPORT, name, dataclasses.replace(tool_context(), keys=keys))
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


def new_key_pair() -> KeyPair:
    """A new key for the ZeroMQ transport. No event loop need run. Raises PluginError."""
    loop = asyncio.new_event_loop()  # for the clock alone, which no transport asks that connects to nobody
    try:
        context = Context("", 0, MachineClock(loop), random.Random(0))
        transport = build_plugin(Port.TRANSPORT, "zmq", context)
        assert isinstance(transport, KeyMaker)
        return transport.new_key_pair()
    finally:
        loop.close()


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
