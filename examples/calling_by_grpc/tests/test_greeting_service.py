"""Calls of gRPC by name, with real servers and a registry in the process of the test."""

# ruff: noqa: D103 - the names of tests are sentences

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import grpc
import grpc.aio
import pytest
from greeting_service import SERVICE, GreeterStub, start_server
from slotreeve.errors import RequestTimeout
from slotreeve_client import Client, Instance
from slotreeve_client.grpc_channel import ServiceChannel
from slotreeve_client.instance_publication import InstancePublication
from slotreeve_testing import RegistryUnderTest, registry


class Greeting(NamedTuple):
    """A server, and its registration, which outlives it."""

    server: grpc.aio.Server
    registered: InstancePublication


class CallingScene(NamedTuple):
    """What a test has."""

    reg: RegistryUnderTest
    client: Client
    servers: dict[str, Greeting]
    channel: ServiceChannel
    stub: GreeterStub


@asynccontextmanager
async def scene(*names: str, scheme: str = "grpc") -> AsyncIterator[CallingScene]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(30))
        reg = await stack.enter_async_context(registry())
        provider, caller = [await stack.enter_async_context(reg.connect()) for _ in range(2)]
        servers = {}
        for name in names:
            server, port = await start_server(name)
            stack.push_async_callback(server.stop, None)
            registered = provider.register(SERVICE, Instance("127.0.0.1", port, scheme=scheme))
            await registered.acknowledged()
            servers[name] = Greeting(server, registered)
        channel = await stack.enter_async_context(ServiceChannel(caller, SERVICE))
        yield CallingScene(reg, caller, servers, channel, GreeterStub(channel))


def test_every_instance_gets_calls_of_each_kind() -> None:
    async def story() -> None:
        async with scene("a", "b") as at:
            said = {await at.stub.hello("you") for _ in range(50)}
            assert said == {"hello you from a", "hello you from b"}
            assert await at.stub.count(3) == [0, 1, 2]
            assert at.channel.get_state() is grpc.ChannelConnectivity.READY

    asyncio.run(story())


def test_after_the_death_of_an_instance_calls_go_to_the_others_before_the_registry_knows() -> None:
    async def story() -> None:
        async with scene("a", "b") as at:
            assert len({await at.stub.hello("you") for _ in range(50)}) == 2
            await at.servers["a"].server.stop(None)
            failures = 0
            for _ in range(50):
                try:
                    assert await at.stub.hello("you") == "hello you from b"
                except grpc.aio.AioRpcError as error:
                    failures += error.code() is grpc.StatusCode.UNAVAILABLE
            assert failures <= 2
            assert len(await at.reg.instances(SERVICE)) == 2

    asyncio.run(story())


def test_an_instance_that_leaves_gets_no_further_call_and_a_new_one_gets_some() -> None:
    async def story() -> None:
        async with scene("a", "b") as at:
            assert len({await at.stub.hello("you") for _ in range(50)}) == 2
            at.servers["a"].registered.unpublish()
            watched = at.client.subscribe(SERVICE)
            await at.reg.until(lambda: len(watched.instances) == 1)
            assert {await at.stub.hello("you") for _ in range(20)} == {"hello you from b"}
            at.servers["b"].registered.update(enabled=False)
            await at.reg.until(lambda: not watched.select().instances)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await at.stub.hello("you")
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "no instance of com.example.Greeter" in str(caught.value.details())

    asyncio.run(story())


def test_an_open_call_goes_on_where_its_instance_is_back_within_the_grace() -> None:
    async def story() -> None:
        async with scene("a") as at, ServiceChannel(at.client, SERVICE, grace_seconds=1.0) as channel:
            left = at.servers["a"].registered
            assert await GreeterStub(channel).hello("you") == "hello you from a"
            kept, watched = channel.pick(), at.client.subscribe(SERVICE)
            for _ in range(2):
                left.unpublish()
                await at.reg.until(lambda: not watched.instances)
                left = at.client.register(SERVICE, left.instance)
                await at.reg.until(lambda: len(watched.instances) == 1)
            await asyncio.sleep(1.5)
            assert channel.pick() is kept
            assert await GreeterStub(channel).hello("you") == "hello you from a"
            left.unpublish()
            await at.reg.until(lambda: not watched.instances)

            async def is_closed() -> bool:
                await asyncio.sleep(0.05)
                return kept.get_state() is grpc.ChannelConnectivity.SHUTDOWN

            await at.reg.until(is_closed)

    asyncio.run(story())


def test_calls_go_on_while_a_session_server_dies() -> None:
    async def story() -> None:
        async with scene("a", "b") as at:
            said = [await at.stub.hello("you")]
            await at.reg.kill_session()
            said += [await at.stub.hello("you") for _ in range(20)]
            await at.reg.settled()
            said += [await at.stub.hello("you") for _ in range(20)]
            assert len(said) == 41

    asyncio.run(story())


def test_an_instance_of_another_scheme_is_not_called() -> None:
    async def story() -> None:
        async with scene("a", scheme="http") as at:
            with pytest.raises(grpc.aio.AioRpcError, match="no instance of"):
                await at.stub.hello("you")

    asyncio.run(story())


def test_a_closed_channel_says_so_and_one_without_a_registry_does_not_open() -> None:
    async def story() -> None:
        async with scene("a") as at:
            await at.channel.close()
            with pytest.raises(grpc.aio.AioRpcError, match="was closed"):
                await at.stub.hello("you")
            await at.channel.close()
            for name in ("session-1", "session-2"):
                await at.reg.kill(name)
            with pytest.raises(RequestTimeout, match="did not say within 0"):
                async with ServiceChannel(at.client, "com.example.Another", ready_seconds=0.05):
                    pass

    asyncio.run(story())
