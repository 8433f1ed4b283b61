"""ZeroMQ transports whose write fails, whose close is given up, and which close while the peer sends."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import zmq
from slotreeve.clock import LoopClock
from slotreeve.errors import AddressInUse, Unreachable
from slotreeve.ports import Connection, Listener
from slotreeve_conformance.transport_faults import has_received
from slotreeve_conformance.transport_scene import CLIENT, SERVER, RecordingHandler, opaque, until
from slotreeve_transport_zmq import dialling, listening, sockets
from slotreeve_transport_zmq.listening import AcceptedLink
from slotreeve_transport_zmq.transport import ZmqTransport

SOON = 5.0


class Ends:
    """One server with some clients, all in this process."""

    def __init__(self) -> None:
        self.server, self.client = ZmqTransport(LoopClock()), ZmqTransport(LoopClock())
        self.far, self.near = RecordingHandler(), list[RecordingHandler]()
        self.listener: Listener | None = None

    async def connected(self, clients: int) -> list[Connection]:
        """The clients' ends of as many connections."""
        listener = self.listener = await self.server.listen("127.0.0.1:0", SERVER, self.far)
        self.near = [RecordingHandler() for _ in range(clients)]
        ends = [await self.client.connect(listener.address, CLIENT, each, SOON) for each in self.near]
        await until(lambda: len(self.far.connections) == clients)
        return ends

    async def __aenter__(self) -> Ends:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.client.close()
        await self.server.close()


@asynccontextmanager
async def closing(transport: ZmqTransport) -> AsyncIterator[ZmqTransport]:
    """Close it whatever happens: what a test leaves open would bring down others."""
    try:
        yield transport
    finally:
        await transport.close()


@pytest.mark.parametrize("failing", ["identity", "packet"])
def test_a_write_for_which_there_is_no_memory_ends_its_connection_and_delays_no_other(
    monkeypatch: Any, failing: str
) -> None:
    raised = list[BaseException | None]()

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, what: raised.append(what.get("exception")))
        async with Ends() as ends:
            await ends.connected(4)
            first, *others = ends.far.connections
            link = first._link  # type: ignore[attr-defined]
            assert isinstance(link, AcceptedLink)
            sends = link._send

            def send(data: bytes, flags: int) -> Any:
                if failing == "identity" or data is not link.identity:
                    monkeypatch.setattr(link, "_send", sends)
                    raise zmq.ZMQError(errno.ENOMEM)
                return sends(data, flags)

            monkeypatch.setattr(link, "_send", send)
            for connection in (first, *others):
                connection.send(opaque(1))
            await until(lambda: first.closed)
            for connection in others:
                connection.send(opaque(2))
            for handler in ends.near[1:]:
                await until(partial(has_received, handler, 2))
            assert not ends.near[0].received_messages
            assert not any(connection.closed for connection in others)

    asyncio.run(scenario())
    assert [type(error) for error in raised] == [zmq.ZMQError]


def test_after_a_close_that_was_given_up_the_next_one_ends_and_the_address_becomes_free() -> None:
    async def scenario() -> None:
        async with Ends() as ends:
            await ends.connected(1)
            assert ends.listener is not None
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await ends.server.close()
            async with asyncio.timeout(SOON):
                await ends.server.close()
            # Who gave up does not wait until libzmq has closed the socket, in a thread of its own.
            async with closing(ZmqTransport(LoopClock())) as again, asyncio.timeout(SOON):
                while not await listens(again, ends.listener.address):  # noqa: ASYNC110 - libzmq tells nobody
                    await asyncio.sleep(0.01)

    async def listens(transport: ZmqTransport, address: str) -> bool:
        try:
            await transport.listen(address, SERVER, RecordingHandler())
        except AddressInUse:
            return False
        return True

    asyncio.run(scenario())


@pytest.mark.parametrize("count", [4_000, 20_000])
def test_what_was_sent_before_a_close_arrives_although_the_peer_sends_meanwhile(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (dialling, listening, sockets):  # a busy machine takes longer for so much
        monkeypatch.setattr(module, "LINGER_MS", round(1_000 * SOON))

    async def scenario() -> None:
        async with Ends() as ends:
            (near,) = await ends.connected(1)
            (far,) = ends.far.connections
            for number in range(count):
                near.send(opaque(number, 1_000))
            for number in range(2 * count):
                far.send(opaque(number, 1_000))
            await asyncio.sleep(0)
            near.close("enough")
            await until(lambda: bool(ends.far.reasons))
            assert ends.far.reasons == ["enough"]
            assert len(ends.far.received_messages) == count

    asyncio.run(scenario())


def test_a_look_up_that_nobody_answers_is_told_and_does_not_hold_up_a_close(monkeypatch: Any) -> None:
    answered = threading.Event()

    def getaddrinfo(*_arguments: object, **_options: object) -> list[object]:
        answered.wait(60)
        return []

    async def scenario() -> None:
        transport = ZmqTransport(LoopClock())
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        attempts = [transport.connect(f"host-{n}.example:1", CLIENT, RecordingHandler(), 0.2) for n in range(20)]
        for error in await asyncio.gather(*attempts, return_exceptions=True):
            assert isinstance(error, Unreachable)
            assert str(error).endswith(".example:1: the host name was not resolved in time")
        async with asyncio.timeout(SOON):
            await transport.close()
        answered.set()

    asyncio.run(scenario())
