"""What the transports for httpx make of a request; the example calling_by_httpx has real servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import httpx
import pytest
from slotreeve_client import Client, Filter, Instance, RoundRobin
from slotreeve_client.httpx_transport import BlockingSlotreeveTransport, SlotreeveTransport
from slotreeve_testing import registry, registry_in_thread

SHOP = "com.example.Shop"
Story = Callable[[Client], Awaitable[None]]


class Recorder(httpx.MockTransport):
    """Answers every request, and keeps it."""

    def __init__(self) -> None:
        super().__init__(lambda request: httpx.Response(200, text=str(request.url)))
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1

    def close(self) -> None:
        self.closed += 1


def play(story: Story) -> None:
    async def scene() -> None:
        async with asyncio.timeout(30), registry(meta=1, data=1, session=1) as reg, reg.connect() as client:
            await story(client)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("instance", "url"),
    [
        (Instance("10.0.0.1", 8080, scheme="http"), "http://10.0.0.1:8080/a/b?c=d"),
        (Instance("10.0.0.1", 80), "http://10.0.0.1/a/b?c=d"),
        (Instance("fd00::1", 8080), "http://[fd00::1]:8080/a/b?c=d"),
        (Instance("shop.example.com", 8080), "http://shop.example.com:8080/a/b?c=d"),
    ],
)
def test_the_address_of_the_instance_stands_in_the_place_of_the_service(instance: Instance, url: str) -> None:
    async def story(client: Client) -> None:
        await client.register(SHOP, instance).acknowledged()
        seen: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            return httpx.Response(200)

        transport = SlotreeveTransport(client, SHOP, inner=httpx.MockTransport(answer))
        async with httpx.AsyncClient(transport=transport, headers={"X-Caller": "test"}) as http:
            answered = await http.put(f"http://{SHOP}/a/b?c=d", content=b"body")
        (request,) = seen
        assert str(request.url) == url
        assert request.headers["Host"] == url.split("/")[2]
        assert request.headers["X-Caller"] == "test"
        assert request.read() == b"body"
        assert answered.request.url.host == SHOP.lower(), "the caller sees the URL that it has asked for"

    play(story)


def test_filter_and_chooser_are_those_of_the_caller() -> None:
    async def story(client: Client) -> None:
        for number in range(4):
            tags = ("blue",) if number % 2 else ()
            client.register(SHOP, Instance("10.0.0.1", 8080 + number, tags=tags))
        await client.flush()
        transport = SlotreeveTransport(
            client,
            SHOP,
            chosen=Filter(tags={"blue"}),
            choose=lambda source: RoundRobin(source, Random(1)),
            inner=Recorder(),
        )
        async with httpx.AsyncClient(transport=transport) as http:
            urls = [(await http.get(f"http://{SHOP}/")).text for _ in range(4)]
        assert urls[:2] == urls[2:]
        assert sorted({*urls}) == ["http://10.0.0.1:8081/", "http://10.0.0.1:8083/"]

    play(story)


def test_no_more_instances_are_tried_than_the_caller_allows() -> None:
    async def story(client: Client) -> None:
        for number in range(5):
            client.register(SHOP, Instance("10.0.0.1", 8080 + number))
        await client.flush()
        tried: list[int | None] = []

        def refuse(request: httpx.Request) -> httpx.Response:
            tried.append(request.url.port)
            raise httpx.ConnectTimeout("nobody there")

        transport = SlotreeveTransport(client, SHOP, attempts=2, inner=httpx.MockTransport(refuse))
        async with httpx.AsyncClient(transport=transport) as http:
            with pytest.raises(httpx.ConnectTimeout, match="nobody there"):
                await http.get(f"http://{SHOP}/")
        assert len(tried) == len({*tried}) == 2

    play(story)


def test_a_read_timeout_is_not_repeated() -> None:
    async def story(client: Client) -> None:
        for number in range(3):
            client.register(SHOP, Instance("10.0.0.1", 8080 + number))
        await client.flush()
        tried: list[int | None] = []

        def be_slow(request: httpx.Request) -> httpx.Response:
            tried.append(request.url.port)
            raise httpx.ReadTimeout("slow")

        async with httpx.AsyncClient(
            transport=SlotreeveTransport(client, SHOP, inner=httpx.MockTransport(be_slow))
        ) as http:
            with pytest.raises(httpx.ReadTimeout):
                await http.get(f"http://{SHOP}/")
        assert len(tried) == 1

    play(story)


def test_closing_closes_what_is_inside_and_not_the_client() -> None:
    async def story(client: Client) -> None:
        inner = Recorder()
        async with httpx.AsyncClient(transport=SlotreeveTransport(client, SHOP, inner=inner)):
            pass
        assert inner.closed == 1
        await client.register(SHOP, Instance("10.0.0.1", 80)).acknowledged()

    play(story)


def test_the_transport_for_threads_does_the_same() -> None:
    inner = Recorder()
    with registry_in_thread(meta=1, data=1, session=1) as reg, reg.connect_blocking() as client:
        client.register(SHOP, Instance("10.0.0.1", 8080, scheme="http"))
        client.flush(timeout_seconds=5)
        with httpx.Client(transport=BlockingSlotreeveTransport(client, SHOP, inner=inner)) as http:
            assert http.get(f"http://{SHOP}/a").text == "http://10.0.0.1:8080/a"
            assert http.get("http://elsewhere.example.com/").text == "http://elsewhere.example.com/"
            with pytest.raises(httpx.ConnectError, match="can be called by https"):
                http.get(f"https://{SHOP}/")
    assert inner.closed == 1
