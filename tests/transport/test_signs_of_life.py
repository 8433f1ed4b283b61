"""Over real ZeroMQ: a frozen session server costs a client little time, and a late one gets no second attempt."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import MutableSequence
from typing import Any

import pytest
from slotreeve.clock import LoopClock
from slotreeve_client import Client, ClientOptions
from slotreeve_conformance.transport_scene import PATIENCE_SECONDS, until
from slotreeve_transport_zmq.transport import ZmqTransport

from tests.transport.conftest import Start, line_of

BUSY_SECONDS = 0.5
AT_ONCE_SECONDS = 0.6
"""It takes an eighth of a second; a busy machine takes longer. An attempt at a frozen process takes a whole second."""


class Unshuffled(random.Random):
    """Leaves lists in order, so that the client tries its addresses in order."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Do nothing."""


async def seconds_to_connect(*addresses: str) -> tuple[str | None, float]:
    """The server to which a new client with these addresses is connected in the end, and how long that took."""
    clock = LoopClock()
    client = Client(list(addresses), ClientOptions(), ZmqTransport(clock), clock, Unshuffled(1))
    started = time.monotonic()
    async with asyncio.timeout(PATIENCE_SECONDS), client:
        await client.connected()
        return client.server, time.monotonic() - started


def freeze(process: subprocess.Popen[str]) -> None:
    """Stop a process, and wait until all of its threads stand still: until then, libzmq's may go on and answer."""
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


def test_a_frozen_process_is_passed_at_once(peer: Start) -> None:
    async def main() -> None:
        frozen, good = peer("session", "0"), peer("session", "0")
        addresses = [await line_of(frozen), await line_of(good)]
        freeze(frozen)
        server, seconds = await seconds_to_connect(*addresses)
        assert server == addresses[1]
        assert seconds < AT_ONCE_SECONDS
        frozen.send_signal(signal.SIGCONT)

    asyncio.run(main())


def test_a_listener_that_never_speaks_is_passed_at_once_and_its_connection_is_closed(peer: Start) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            good = await line_of(peer("session", "0"))
            server, seconds = await seconds_to_connect(f"127.0.0.1:{silent.getsockname()[1]}", good)
            assert server == good
            assert seconds < AT_ONCE_SECONDS
            stream, _ = silent.accept()
            stream.setblocking(False)
            await until(lambda: has_ended(stream))
            stream.close()

    asyncio.run(main())


def has_ended(stream: socket.socket) -> bool:
    """Whether the other end has closed the stream; reads what it sent before."""
    try:
        return stream.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_process_whose_python_is_busy_gets_no_other_attempt_beside_it(peer: Start) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            other.setblocking(False)
            busy = await line_of(peer("session", str(BUSY_SECONDS)))
            server, seconds = await seconds_to_connect(busy, f"127.0.0.1:{other.getsockname()[1]}")
            assert server == busy
            assert seconds > BUSY_SECONDS / 2
            with pytest.raises(BlockingIOError):
                other.accept()

    asyncio.run(main())
