"""A registry and a gateway with faces in one process: real HTTP, everything else on the memory transport."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import httpx
from slotreeve.catalogue import Catalogue
from slotreeve.clock import LoopClock
from slotreeve.errors import RequestTimeout
from slotreeve.model.nodes import Node, Role
from slotreeve_client import Client
from slotreeve_gateway import GatewayAccess
from slotreeve_gateway.server import GatewayServer
from slotreeve_servers.settings import load_settings
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

STORY_SECONDS = 60.0
POLL_SECONDS = 0.005
Check = Callable[[], Awaitable[object]]


@dataclass
class Stage:
    """What a test has.

    Attributes:
        cluster: the registry: one meta server, two data servers, two session servers. Its servers can be killed.
        gateway: the gateway.
        http: a client of the gateway, with keep-alive.
        sdk: a client of the registry.
        another: starts a further gateway, as ``async with stage.another() as (gateway, http)``.
    """

    cluster: SimulatedCluster
    gateway: GatewayServer
    http: httpx.AsyncClient
    sdk: Client
    another: Callable[[], AbstractAsyncContextManager[tuple[GatewayServer, httpx.AsyncClient]]]

    @property
    def url(self) -> str:
        """Where the gateway listens."""
        return f"http://{self.gateway.address}"

    async def until(self, check: Check, what: str, seconds: float = 15.0) -> None:
        """Wait until ``check`` returns something true. Raises RequestTimeout: not within ``seconds``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not await check():
            if loop.time() > deadline:
                raise RequestTimeout(f"not within {seconds:g} s: {what}")
            await asyncio.sleep(POLL_SECONDS)


Story = Callable[[Stage], Awaitable[None]]


class OnStage(Protocol):
    """What the fixture ``on_stage`` is."""

    def __call__(
        self,
        story: Story,
        *,
        faces: str = "rest",
        access: GatewayAccess | None = None,
        settings: Mapping[str, object] | None = None,
        seconds: float = STORY_SECONDS,
    ) -> None:
        """Run ``story`` with a registry, a gateway and clients of both.

        Args:
            story: what happens.
            faces: the faces, as the setting ``face.use``.
            access: who may do what; None: everybody may do everything.
            settings: further settings of the gateway, with dotted keys.
            seconds: it fails where it takes longer.
        """


def run_story(
    story: Story,
    *,
    faces: str = "rest",
    access: GatewayAccess | None = None,
    settings: Mapping[str, object] | None = None,
    seconds: float = STORY_SECONDS,
) -> None:
    """See :class:`OnStage`."""

    async def scene() -> None:
        async with asyncio.timeout(seconds):
            cluster = SimulatedCluster(random.Random(7), meta=1, data=2, session=2)
            cluster.network = MemoryNetwork.current()  # which the gateway's own client uses, too
            async with cluster:
                made = _Scene(cluster, faces, access, settings or {})
                async with made.gateway() as (gateway, client):
                    await story(Stage(cluster, gateway, client, cluster.client(), made.gateway))

    asyncio.run(scene())


class _Scene:
    """Starts gateways of one registry."""

    def __init__(
        self, cluster: SimulatedCluster, faces: str, access: GatewayAccess | None, settings: Mapping[str, object]
    ) -> None:
        self._cluster, self._access, self._numbers = cluster, access, itertools.count(1)
        sessions = ",".join(cluster.address(name) for name in cluster.names if name.startswith("session"))
        self._flags = {
            "cluster.slots": 16,
            "cluster.meta": {"meta-1": cluster.address("meta-1")},
            "transport.use": "memory",
            "gateway.sessions": sessions,
            "gateway.directory_seconds": 0.1,
            "face.use": faces,
            **settings,
        }

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[tuple[GatewayServer, httpx.AsyncClient]]:
        """A running gateway, and a client of it."""
        clock, name = LoopClock(), f"gateway-{next(self._numbers)}"
        transport = MemoryTransport(clock, name, self._cluster.network)
        node = Node(name, Role.GATEWAY, "127.0.0.1:0", f"{name}@1")
        settings, catalogue = load_settings(None, {}, self._flags), Catalogue.load()
        gateway = GatewayServer(settings, catalogue, clock, random.Random(1), transport, node, self._access)
        await gateway.start()
        try:
            async with httpx.AsyncClient(base_url=f"http://{gateway.address}", timeout=30) as client:
                yield gateway, client
        finally:
            await gateway.stop()
            await transport.close()
