"""Calls by name, with real servers and a registry in the process of the test."""

# ruff: noqa: D102, D103 - the names of tests are sentences

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import httpx
import pytest
from greeting_caller import SERVICE, greeting, http_client
from slotreeve.errors import ModelError
from slotreeve_client import Client, Instance
from slotreeve_client.httpx_transport import BlockingSlotreeveTransport, SlotreeveTransport
from slotreeve_testing import RegistryUnderTest, registry, registry_in_thread

URL = f"http://{SERVICE}/hello"


class Greeter:
    """A server of HTTP, which can die and can break connections in the midst of a request."""

    def __init__(self, name: str) -> None:
        self.name, self.requests, self.breaks = name, 0, False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.hosts: set[str] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def die(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in [*self._writers]:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                lines = head.decode().lower().split("\r\n")
                self.hosts |= {line.removeprefix("host: ") for line in lines if line.startswith("host: ")}
                length = [int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")]
                await reader.readexactly(sum(length))
                if self.breaks:
                    return
                body = f"hello from {self.name}".encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self._writers.discard(writer)
            writer.transport.abort()


@asynccontextmanager
async def greeters(client: Client, *names: str, scheme: str = "http") -> AsyncIterator[list[Greeter]]:
    """Servers that are registered, also after they have died."""
    async with AsyncExitStack() as stack:
        made = []
        for name in names:
            greeter = Greeter(name)
            await greeter.start()
            stack.push_async_callback(greeter.die)
            await client.register(SERVICE, Instance("127.0.0.1", greeter.port, scheme=scheme, id=name)).acknowledged()
            made.append(greeter)
        yield made


class Scene(NamedTuple):
    """What a test has."""

    reg: RegistryUnderTest
    client: Client
    made: list[Greeter]
    http: httpx.AsyncClient


@asynccontextmanager
async def scene(*names: str) -> AsyncIterator[Scene]:
    """A registry, servers in it, and a client of httpx that calls them."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(30))
        reg = await stack.enter_async_context(registry())
        client = await stack.enter_async_context(reg.connect())
        made = await stack.enter_async_context(greeters(client, *names))
        yield Scene(reg, client, made, await stack.enter_async_context(http_client(client)))


def test_every_instance_gets_requests_and_sees_its_own_address() -> None:
    async def story() -> None:
        async with scene("a", "b") as (_, _, made, http):
            said = {await greeting(http) for _ in range(50)}
            assert said == {"hello from a", "hello from b"}
            assert [greeter.hosts for greeter in made] == [{f"127.0.0.1:{greeter.port}"} for greeter in made]

    asyncio.run(story())


def test_a_dead_instance_is_passed_over_also_by_a_post() -> None:
    async def story() -> None:
        async with scene("a", "b") as (_, _, made, http):
            await made[0].die()
            for _ in range(20):
                assert (await http.post(URL, content=b"once")).text == "hello from b"
            assert made[1].requests == 20

    asyncio.run(story())


def test_requests_go_on_while_a_session_server_dies() -> None:
    async def story() -> None:
        async with scene("a", "b") as (reg, client, _, http):
            said = [await greeting(http)]
            await reg.kill_session()
            said += [await greeting(http) for _ in range(20)]
            await reg.until(lambda: client.statistics().reconnections)
            said += [await greeting(http) for _ in range(20)]
            assert len(said) == 41

    asyncio.run(story())


@pytest.mark.parametrize(("method", "is_repeated"), [("GET", True), ("PUT", True), ("POST", False), ("PATCH", False)])
def test_a_request_that_may_have_been_carried_out_is_repeated_if_it_is_idempotent(
    method: str, is_repeated: bool
) -> None:
    async def story() -> None:
        async with scene("a", "b") as (_, _, made, http):
            made[0].breaks = True
            failures = 0
            for _ in range(30):
                try:
                    answer = await http.request(method, URL, content=b"body")
                    assert answer.text == "hello from b"
                except (httpx.RemoteProtocolError, httpx.ReadError):
                    failures += 1
            assert made[0].requests > 0
            assert failures == (0 if is_repeated else made[0].requests)

    asyncio.run(story())


def test_a_body_that_can_be_sent_once_is_not_sent_twice() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"part"

    async def story() -> None:
        async with scene("a", "b") as (_, _, made, http):
            made[0].breaks = made[1].breaks = True
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                await http.put(URL, content=parts())
            assert made[0].requests + made[1].requests == 1

    asyncio.run(story())


def test_no_instance_of_the_scheme_is_a_connect_error() -> None:
    async def story() -> None:
        async with scene("a") as (_, _, made, http):
            with pytest.raises(httpx.ConnectError, match=r"no instance of com\.example\.Greeter .* by https"):
                await http.get(URL.replace("http:", "https:"))
            assert made[0].requests == 0

    asyncio.run(story())


def test_all_instances_dead_is_the_error_of_the_last_one() -> None:
    async def story() -> None:
        async with scene("a", "b") as (_, _, made, http):
            await asyncio.gather(*(greeter.die() for greeter in made))
            with pytest.raises(httpx.ConnectError, match="All connection attempts failed") as caught:
                await http.get(URL)
            assert caught.value.request.url.host == SERVICE.lower()

    asyncio.run(story())


def test_other_hosts_and_a_closed_client_are_as_ever() -> None:
    async def story() -> None:
        async with scene("a") as (_, client, made, http):
            assert (await http.get(f"http://127.0.0.1:{made[0].port}/")).status_code == 200
            assert await greeting(http) == "hello from a"
            await client.close()
            with pytest.raises(httpx.ConnectError, match=r"was closed|has ended"):
                await http.get(URL)

    asyncio.run(story())


def test_a_service_that_the_registry_does_not_tell_of_in_time_is_a_connect_timeout() -> None:
    async def story() -> None:
        async with asyncio.timeout(30), registry(session=1) as reg, reg.connect() as client:
            await reg.kill_session()
            transport = SlotreeveTransport(client, SERVICE, ready_seconds=0.05)
            async with httpx.AsyncClient(transport=transport) as http:
                with pytest.raises(httpx.ConnectTimeout, match=r"did not say within 0\.05 s who provides"):
                    await http.get(URL)
            with pytest.raises(ModelError, match="differ in capitals only"):
                SlotreeveTransport(client, "a.B", "a.b")

    asyncio.run(story())


@pytest.fixture
def loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop for the servers of a blocking test."""
    import threading

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_blocking_client_passes_over_the_dead_and_follows_the_service(
    loop_in_thread: asyncio.AbstractEventLoop,
) -> None:
    one, other = Greeter("a"), Greeter("b")
    for greeter in (one, other):
        asyncio.run_coroutine_threadsafe(greeter.start(), loop_in_thread).result()
    with registry_in_thread() as reg, reg.connect_blocking() as client:
        registered = [client.register(SERVICE, Instance("127.0.0.1", each.port, id=each.name)) for each in (one, other)]
        client.flush(timeout_seconds=5)
        with httpx.Client(transport=BlockingSlotreeveTransport(client, SERVICE)) as http:
            assert {http.get(URL).text for _ in range(50)} == {"hello from a", "hello from b"}
            asyncio.run_coroutine_threadsafe(one.die(), loop_in_thread).result()
            assert {http.post(URL, content=b"x").text for _ in range(10)} == {"hello from b"}
            reg.kill_session()
            assert {http.get(URL).text for _ in range(10)} == {"hello from b"}
            registered[1].unpublish()
            reg.until(lambda: len(reg.instances(SERVICE)) == 1)
        asyncio.run_coroutine_threadsafe(other.die(), loop_in_thread).result()
