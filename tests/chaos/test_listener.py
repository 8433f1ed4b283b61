"""A listener ends what it has accepted, in whichever step that is."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import warnings

import pytest
from slotreeve_chaos.listener import TcpListener


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)


def test_each_connection_is_served_and_closed_when_it_is_done() -> None:
    async def main() -> None:
        listener = TcpListener(echo)
        host, _, port = (await listener.listen()).rpartition(":")
        for text in (b"a\n", b"b\n"):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(text)
            assert await reader.readline() == text
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
        await listener.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))

    asyncio.run(main())


@pytest.mark.parametrize("steps", range(8))
def test_a_connection_that_comes_just_before_the_end_is_left_open_in_no_step(steps: int) -> None:
    async def main() -> None:
        listener = TcpListener(echo)
        host, _, port = (await listener.listen()).rpartition(":")
        callers = [socket.create_connection((host, int(port))) for _ in range(3)]
        for _ in range(steps):
            await asyncio.sleep(0)
        await listener.close()
        for caller in callers:
            with caller:
                caller.settimeout(10)
                with contextlib.suppress(ConnectionResetError):
                    assert caller.recv(1) == b""

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()


def test_a_caller_that_has_gone_before_it_was_accepted_is_not_served() -> None:
    served: list[object] = []

    async def main() -> None:
        is_over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            served.append(await reader.read())
            is_over.set()

        listener = TcpListener(serve)
        host, _, port = (await listener.listen()).rpartition(":")
        gone = socket.create_connection((host, int(port)))
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        gone.close()
        with socket.create_connection((host, int(port))) as caller:
            caller.sendall(b"x")
            caller.shutdown(socket.SHUT_WR)
            await is_over.wait()
        await listener.close()

    asyncio.run(main())
    assert served == [b"x"]
