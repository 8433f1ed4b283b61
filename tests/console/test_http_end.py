"""The HTTP end itself on real sockets: addresses in use, slow and rude clients, the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from slotreeve.errors import AddressInUse
from slotreeve.model.nodes import Node, Role
from slotreeve_console.health import HealthPages
from slotreeve_console.http_end import PAGES, SPARE_CONNECTIONS, HttpEnd
from slotreeve_console.places import UNDISTURBED_SECONDS

from tests.console.test_health import OfAPlugin

PATIENCE = 10.0
NODE = Node("session-1", Role.SESSION, "127.0.0.1:7730", "session-1@1", "east", 1.0)


def pages(address: str = "127.0.0.1:0") -> HttpEnd:
    return HttpEnd(HealthPages(OfAPlugin(), NODE, "east").application(), address)


def play(scenario: Callable[[HttpEnd], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        end = pages()
        await end.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await scenario(end)
        finally:
            await end.stop()

    asyncio.run(main())


async def say(end: HttpEnd, head: bytes) -> bytes:
    """What comes back until the server closes."""
    reader, writer = await connect(end)
    writer.write(head)
    answer = await reader.read()
    writer.close()
    return answer


async def connect(end: HttpEnd) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = end.address.rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port))


def test_a_request_is_answered_at_the_free_port_that_was_found() -> None:
    async def scenario(end: HttpEnd) -> None:
        assert not end.address.endswith(":0")
        answer = await say(end, b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nready\n")
        assert b"server:" not in answer.lower()

    play(scenario)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"404"),
        (b"POST /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", b"405"),
        (b"\x16\x03\x01 this is no request\r\n\r\n", b"400"),
        (b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n", b"400"),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n", b"400"),
    ],
    ids=["an unknown page", "another method", "no HTTP", "no host", "two hosts"],
)
def test_what_cannot_be_answered_gets_an_error_and_the_pages_go_on(head: bytes, status: bytes) -> None:
    async def scenario(end: HttpEnd) -> None:
        assert (await say(end, head)).startswith(b"HTTP/1.1 " + status)
        assert b" 200 " in await say(end, b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    play(scenario)


def test_a_request_of_an_older_version_of_http_needs_no_host() -> None:
    async def scenario(end: HttpEnd) -> None:
        assert b" 200 " in await say(end, b"GET /livez HTTP/1.0\r\n\r\n")

    play(scenario)


@pytest.mark.parametrize("beyond", [0, 1, SPARE_CONNECTIONS // 2, SPARE_CONNECTIONS, 2 * SPARE_CONNECTIONS])
def test_connections_that_ask_for_nothing_yield_to_one_that_does(beyond: int) -> None:
    async def scenario(end: HttpEnd) -> None:
        silent = [await connect(end) for _ in range(PAGES.connections)]
        await asyncio.sleep(UNDISTURBED_SECONDS)
        silent += [await connect(end) for _ in range(beyond)]
        for _ in range(3):
            await asyncio.sleep(UNDISTURBED_SECONDS)
            answer = await say(end, b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b" 200 " in answer
            assert end.counters()["http_yielded_connections"] > beyond // 2
        assert await silent[0][0].read() == b"", "the one that has waited the longest yields"
        assert not silent[PAGES.connections - 1][0].at_eof() or beyond
        assert end.counters()["http_refused_connections"] <= 2 * beyond
        for _, writer in silent:
            writer.close()

    play(scenario)


@pytest.mark.parametrize(
    "head", [b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"GET /livez HTTP/1.0\r\n\r\n"]
)
def test_one_who_asks_again_and_again_over_a_connection_each_has_one_place(head: bytes) -> None:
    async def scenario(end: HttpEnd) -> None:
        for _ in range(2 * PAGES.connections):
            assert b" 200 " in await say(end, head)
        assert end.counters()["http_refused_connections"] == 0

    play(scenario)


def test_stopping_does_not_wait_for_silent_clients_and_frees_the_port() -> None:
    async def scenario() -> None:
        end = pages()
        await end.start()
        _, writer = await connect(end)
        writer.write(b"GET /livez HTTP/1.1\r\n")
        await writer.drain()
        async with asyncio.timeout(PATIENCE):
            await end.stop()
        writer.close()
        again = pages(end.address)
        await again.start()
        await again.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["[::1]:0", "localhost:0"])
def test_addresses_of_all_kinds_are_listened_at(address: str) -> None:
    async def scenario() -> None:
        end = pages(address)
        try:
            await end.start()
        except AddressInUse as error:
            pytest.skip(f"this machine has no such address: {error}")
        (await connect(end))[1].close()
        await end.stop()

    asyncio.run(scenario())


def test_an_address_in_use_and_a_name_of_nothing_are_refused_with_the_setting() -> None:
    async def scenario() -> None:
        end = pages()
        await end.start()
        with pytest.raises(AddressInUse, match=r"http\.listen: cannot listen at 127\.0\.0\.1:\d+"):
            await pages(end.address).start()
        await end.stop()
        with pytest.raises(AddressInUse, match=r"http\.listen: no-such-host\.invalid:1 cannot be used"):
            await pages("no-such-host.invalid:1").start()

    asyncio.run(scenario())
