"""Programs that call a service learn that it is not pushed to them any more, where it was pushed before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import grpc
import grpc.aio
import httpx
import pytest
from slotreeve.errors import RegistrationError
from slotreeve_client import Client, Instance
from slotreeve_client.grpc_channel import ServiceChannel
from slotreeve_client.httpx_transport import BlockingSlotreeveTransport, SlotreeveTransport
from slotreeve_conformance import virtual_time
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_testing import registry_in_thread

FIRST, SHOP = "com.example.First", "com.example.Shop"
Calls = Callable[[], Awaitable[None]]


def play(story: Callable[[Client, Calls], Awaitable[None]]) -> None:
    """A client and a function by which its session server starts again with room for one subscription."""

    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=1) as cluster:
            client = cluster.client()
            client.subscribe(FIRST)
            client.register(SHOP, Instance("10.0.0.1", 8080))
            await client.flush()

            async def one_is_enough() -> None:
                cluster.kill("session-1")
                await cluster.start("session-1", session__most_subscriptions=1)
                await asyncio.sleep(10)

            await story(client, one_is_enough)

    virtual_time.run(scenario, seed=1)


def test_a_channel_of_grpc_says_so_with_each_call() -> None:
    async def story(client: Client, one_is_enough: Calls) -> None:
        channel = ServiceChannel(client, SHOP)
        await channel.channel_ready()
        await one_is_enough()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            channel.pick()
        assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "1 subscriptions at a session server" in str(raised.value.details())
        await channel.close()

    play(story)


def test_a_transport_of_httpx_says_so_with_each_request() -> None:
    async def story(client: Client, one_is_enough: Calls) -> None:
        transport = SlotreeveTransport(client, SHOP, inner=httpx.MockTransport(lambda request: httpx.Response(200)))
        async with httpx.AsyncClient(transport=transport) as http:
            assert (await http.get(f"http://{SHOP}/")).status_code == 200
            await one_is_enough()
            with pytest.raises(httpx.ConnectError, match="1 subscriptions at a session server"):
                await http.get(f"http://{SHOP}/")

    play(story)


def test_a_subscription_for_threads_says_so_without_waiting_for_the_event_loop() -> None:
    with registry_in_thread(meta=1, data=1, session=1) as reg, reg.connect_blocking() as client:
        subscription = client.subscribe(SHOP)
        subscription.ready(5)
        assert not subscription.has_ended
        client.call(lambda: subscription._subscription.close(RegistrationError("the key lacks a right")))
        assert subscription.has_ended
        with pytest.raises(RegistrationError, match="the key lacks a right"):
            subscription.ready(5)


def test_a_transport_of_httpx_for_threads_says_so_with_each_request() -> None:
    with registry_in_thread(meta=1, data=1, session=1) as reg, reg.connect_blocking() as client:
        client.register(SHOP, Instance("10.0.0.1", 8080))
        client.flush(5)
        inner = httpx.MockTransport(lambda request: httpx.Response(200))
        transport = BlockingSlotreeveTransport(client, SHOP, inner=inner)
        with httpx.Client(transport=transport) as http:
            assert http.get(f"http://{SHOP}/").status_code == 200
            (inside,) = transport._subscriptions.values()
            client.call(lambda: inside._subscription.close(RegistrationError("the key lacks a right")))
            with pytest.raises(httpx.ConnectError, match="the key lacks a right"):
                http.get(f"http://{SHOP}/")
