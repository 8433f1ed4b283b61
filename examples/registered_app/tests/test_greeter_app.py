"""The application, with a registry in the process of the test."""

# ruff: noqa: D103 - the names of tests are sentences

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from greeter_app import SERVICE, make_app
from slotreeve.errors import ClientClosed
from slotreeve_client import Health, Instance
from slotreeve_client.asgi_registration import AsgiRegistration
from slotreeve_testing import RegistryUnderTest, registry


class Served:
    """The application behind a real server, which listens when it is told to."""

    def __init__(self, reg: RegistryUnderTest) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.instance = Instance("127.0.0.1", self.socket.getsockname()[1], scheme="http")
        self.registration = AsgiRegistration(SERVICE, self.instance, reg.connect)
        config = uvicorn.Config(make_app(self.registration), log_level="warning", lifespan="on")
        self.server = uvicorn.Server(config)
        self.url = f"http://{self.instance.endpoint}"


@asynccontextmanager
async def serving(served: Served) -> AsyncIterator[None]:
    task = asyncio.create_task(served.server.serve(sockets=[served.socket]))
    try:
        yield
    finally:
        served.server.should_exit = True
        await task


async def is_empty(reg: RegistryUnderTest) -> bool:
    return not await reg.instances(SERVICE)


def test_the_application_is_registered_while_it_serves() -> None:
    async def story() -> None:
        async with asyncio.timeout(30), registry() as reg, httpx.AsyncClient() as http:
            served = Served(reg)
            assert served.registration.why_not_ready == "the application has not started"
            async with serving(served):
                await reg.until(lambda: served.registration.is_ready)
                assert (await http.get(f"{served.url}/readyz")).status_code == 200
                (provider,) = await reg.instances(SERVICE)
                assert provider.instance == served.instance
            assert not served.registration.is_ready
            await reg.until(lambda: is_empty(reg))

    asyncio.run(story())


def test_who_waits_for_the_registration_learns_that_the_application_has_ended() -> None:
    async def story() -> None:
        async with asyncio.timeout(30), registry() as reg:
            served = Served(reg)
            async with served.registration.lifespan():
                waiting = asyncio.create_task(served.registration.acknowledged())
                await reg.advance(1)
            with pytest.raises(ClientClosed, match="it was withdrawn"):
                await waiting
            served.socket.close()

    asyncio.run(story())


def test_nothing_is_registered_before_the_server_listens() -> None:
    async def story() -> None:
        async with asyncio.timeout(30), registry() as reg:
            served = Served(reg)
            async with served.registration.lifespan():
                await reg.advance(5)
                assert await reg.instances(SERVICE) == ()
                assert served.registration.why_not_ready == "its server does not accept connections yet"
                served.socket.listen()
                await served.registration.acknowledged()
                assert len(await reg.instances(SERVICE)) == 1
            served.socket.close()

    asyncio.run(story())


def test_the_registration_stays_while_servers_of_the_registry_die() -> None:
    async def story() -> None:
        async with asyncio.timeout(30), registry() as reg, httpx.AsyncClient() as http:
            served = Served(reg)
            async with serving(served):
                await reg.until(lambda: served.registration.is_ready)
                await reg.kill_session()
                await reg.kill_data()
                await reg.settled()
                await reg.until(lambda: served.registration.is_ready)
                assert len(await reg.instances(SERVICE)) == 1
                assert (await http.get(f"{served.url}/readyz")).text == "ready"

    asyncio.run(story())


def test_the_application_starts_without_a_registry_and_registers_when_there_is_one() -> None:
    async def story() -> None:
        async with asyncio.timeout(30), registry(session=1) as reg, httpx.AsyncClient() as http:
            await reg.kill_session()
            served = Served(reg)
            async with serving(served):
                await reg.until(lambda: served.registration.publication)
                answer = await http.get(f"{served.url}/readyz")
                assert answer.status_code == 503
                assert "session-1" in answer.text or "no process listens" in answer.text
                await reg.restart()
                await reg.until(lambda: served.registration.is_ready)

    asyncio.run(story())


def test_it_says_how_it_is_and_can_be_withdrawn_before_its_end() -> None:
    async def story() -> None:
        async with asyncio.timeout(30), registry() as reg, httpx.AsyncClient() as http:
            served = Served(reg)
            async with serving(served):
                await reg.until(lambda: served.registration.publication)
                await served.registration.acknowledged()
                assert served.registration.publication is not None
                served.registration.publication.set_health(Health.WARNING, "its disk is nearly full")
                await served.registration.acknowledged()
                (provider,) = await reg.instances(SERVICE)
                assert provider.instance is not None
                assert provider.instance.health is Health.WARNING
                await served.registration.withdraw()
                await served.registration.withdraw()
                await reg.until(lambda: is_empty(reg))
                assert (await http.get(f"{served.url}/hello")).text == f"hello from {served.instance.endpoint}"
                assert (await http.get(f"{served.url}/readyz")).text == "it was withdrawn"

    asyncio.run(story())
