"""The proxy stalls, ends or forwards the connections of one process and leaves those of others alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from slotreeve_chaos.proxy import Proxy, ProxyCut
from slotreeve_harness.free_ports import free_address

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NamedByOrder:
    """Names connections in the order in which they are made."""

    def __init__(self, *names: str) -> None:
        self._left, self._names = list(names), dict[int, str]()

    async def name(self, port: int) -> str | None:
        """The name of the connection from this port."""
        if port not in self._names and self._left:
            self._names[port] = self._left.pop(0)
        return self._names.get(port)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while line := await reader.readline():
            writer.write(line)
    await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close it, and wait until it is closed."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def ask(connection: Connection, line: bytes) -> bytes:
    connection[1].write(line)
    return await connection[0].readline()


async def is_open(connection: Connection) -> bool:
    with contextlib.suppress(OSError):
        return await ask(connection, b"open?\n") == b"open?\n"
    return False


def with_proxy(scenario: Callable[[Proxy, Callable[[], Awaitable[Connection]]], Awaitable[None]]) -> None:
    """Run ``scenario`` with a proxy before an echo server and a function that connects through it. The connections are
    those of ``one``, ``other`` and ``one`` again, in this order."""

    async def run() -> None:
        near = free_address()
        echoing: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            echoing.add(asyncio.create_task(echo(reader, writer)))

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            target = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            proxy = Proxy(near, target, NamedByOrder("one", "other", "one"))
            await proxy.start()
            made: list[Connection] = []

            async def connect() -> Connection:
                made.append(await asyncio.open_connection("127.0.0.1", int(near.rpartition(":")[2])))
                return made[-1]

            try:
                await scenario(proxy, connect)
            finally:
                for _, writer in made:
                    await closed(writer)
                await proxy.stop()
                await asyncio.gather(*echoing)

    asyncio.run(run())


async def connect_two(proxy: Proxy, connect: Callable[[], Awaitable[Connection]]) -> tuple[Connection, Connection]:
    one = await connect()
    assert await is_open(one)
    await proxy.identify()
    other = await connect()
    assert await is_open(other)
    await proxy.identify()
    return one, other


@pytest.mark.parametrize("cut", [ProxyCut("one"), ProxyCut("one", to_client=False), ProxyCut("one", to_server=False)])
def test_a_cut_stalls_the_connections_of_one_process_and_no_others(cut: ProxyCut) -> None:
    async def scenario(proxy: Proxy, connect: Callable[[], Awaitable[Connection]]) -> None:
        one, other = await connect_two(proxy, connect)
        proxy.cut(cut)
        stalled = asyncio.create_task(ask(one, b"late\n"))
        newer = asyncio.create_task(ask(await connect(), b"late as well\n"))
        for _ in range(10):
            assert await is_open(other)
        assert not stalled.done()
        assert not newer.done()
        proxy.heal()
        assert [await stalled, await newer] == [b"late\n", b"late as well\n"]

    with_proxy(scenario)


def test_a_cut_that_refuses_ends_the_connections_of_one_process_and_no_others() -> None:
    async def scenario(proxy: Proxy, connect: Callable[[], Awaitable[Connection]]) -> None:
        one, other = await connect_two(proxy, connect)
        proxy.cut(ProxyCut("one", refuses=True))
        assert not await is_open(one)
        assert not await is_open(await connect())
        assert await is_open(other)
        proxy.heal()
        assert await is_open(await connect())

    with_proxy(scenario)


def test_a_cut_without_a_name_stalls_every_connection() -> None:
    async def scenario(proxy: Proxy, connect: Callable[[], Awaitable[Connection]]) -> None:
        connections = await connect_two(proxy, connect)
        proxy.cut(ProxyCut())
        stalled = [asyncio.create_task(ask(connection, b"late\n")) for connection in connections]
        done, _ = await asyncio.wait(stalled, timeout=0.1)
        assert not done
        proxy.heal()
        assert await asyncio.gather(*stalled) == [b"late\n", b"late\n"]

    with_proxy(scenario)
