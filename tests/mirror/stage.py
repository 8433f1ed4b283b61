"""A registry that is mirrored: it speaks a language of others; and a second registry, into which it is imported."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import httpx
from slotreeve.clock import LoopClock
from slotreeve.errors import RequestTimeout
from slotreeve_client import Client, Instance
from slotreeve_mirror.following import Mirror
from slotreeve_mirror.mirror import MirrorCore
from slotreeve_mirror.source import MirrorSource, SourcePages
from slotreeve_simulator.simulated_cluster import SimulatedCluster

TTL_SECONDS = 90.0
Made = Callable[[SourcePages], MirrorSource]


class AdvancingClock(LoopClock):
    """The clock of the event loop, which a test may put forward.

    Attributes:
        ahead: seconds by which it is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class Mirrored:
    """A mirror at work.

    Attributes:
        clock: that of the mirror.
        client: a client of the registry into which the source is imported.
        core: that of the mirror.
        said: what the mirror has reported.
    """

    def __init__(self, client: Client, core: MirrorCore) -> None:
        self.client, self.core, self.clock = client, core, AdvancingClock()
        self.said: list[str] = []

    async def instances(self, service: str) -> dict[str, Instance]:
        """The instances of a service here, by their ids."""
        found = [provider.said for provider in await self.client.get(service)]
        return {each.id: each for each in found if each is not None}

    async def until(self, service: str, check: Callable[[dict[str, Instance]], object], seconds: float = 15.0) -> float:
        """Wait until the instances of a service are as ``check`` says; how long that took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        found: dict[str, Instance] | None = None
        while found is None or not check(found):
            assert loop.time() < began + seconds, (found, self.said)
            await asyncio.sleep(0.01)
            with suppress(RequestTimeout):  # a busy machine answers later
                found = await self.instances(service)
        return loop.time() - began

    async def until_listed(self, count: int, seconds: float = 30.0) -> None:
        """Wait until so many services are there."""
        deadline = asyncio.get_running_loop().time() + seconds
        while (found := len(await self.client.list())) != count:
            assert asyncio.get_running_loop().time() < deadline, (found, self.said)
            await asyncio.sleep(0.01)

    async def until_said(self, text: str, seconds: float = 15.0) -> None:
        """Wait until the mirror has reported this."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not any(text in line for line in self.said):
            assert asyncio.get_running_loop().time() < deadline, self.said
            await asyncio.sleep(0.01)


@asynccontextmanager
async def second_registry() -> AsyncIterator[Client]:
    """A client of a registry of its own."""
    async with SimulatedCluster(random.Random(8), meta=1, data=2, session=1) as cluster:
        yield cluster.client()


@asynccontextmanager
async def mirrored(made: Made, url: str, transport: httpx.AsyncBaseTransport | None = None) -> AsyncIterator[Mirrored]:
    """A mirror of the source at ``url``, into a second registry."""
    async with second_registry() as client, mirroring(made, url, transport, client) as one:
        yield one


@asynccontextmanager
async def mirroring(
    made: Made, url: str, transport: httpx.AsyncBaseTransport | None, client: Client
) -> AsyncIterator[Mirrored]:
    """A mirror of the source at ``url``, into the registry of a client."""
    pages, core = SourcePages(url, {"Accept": "application/json"}, transport), MirrorCore(url, TTL_SECONDS)
    one = Mirrored(client, core)
    mirror = Mirror(made(pages), core, client, one.clock, one.said.append)
    following = asyncio.create_task(mirror.follow(TTL_SECONDS, lambda name: True))
    try:
        yield one
        if following.done():
            following.result()
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await pages.close()
