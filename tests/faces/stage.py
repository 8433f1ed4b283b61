"""A registry and a gateway with faces in one process: real HTTP, everything else on the memory transport."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import httpx
from slotreeve.catalogue import Catalogue
from slotreeve.clock import Clock, LoopClock
from slotreeve.errors import RequestTimeout
from slotreeve.model.nodes import Node, Role
from slotreeve.ports import Transport
from slotreeve_client import Client
from slotreeve_gateway import Access
from slotreeve_gateway.server import GatewayServer
from slotreeve_servers.settings import ServerConfiguration, load_settings
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

STORY_SECONDS = 60.0
POLL_SECONDS = 0.005
Check = Callable[[], Awaitable[object]]


class StagedGateway(GatewayServer):
    """A gateway whose callers a test knows by their tokens."""

    def __init__(
        self, configuration: ServerConfiguration, clock: Clock, transport: Transport, node: Node, access: Access | None
    ) -> None:
        super().__init__(configuration, Catalogue.load(), clock, random.Random(1), transport, node)
        self._given = access

    def _access(self) -> Access:
        return self._given if self._given is not None else super()._access()


@dataclass
class Stage:
    """What a test has.

    Attributes:
        cluster: the registry: one meta server, two data servers, two session servers. Its servers can be killed.
        gateway: the gateway.
        http: a client of the gateway, with keep-alive.
        sdk: a client of the registry.
    """

    cluster: SimulatedCluster
    gateway: GatewayServer
    http: httpx.AsyncClient
    sdk: Client

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
        access: Access | None = None,
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
    access: Access | None = None,
    settings: Mapping[str, object] | None = None,
    seconds: float = STORY_SECONDS,
) -> None:
    """See :class:`OnStage`."""

    async def scene() -> None:
        async with asyncio.timeout(seconds):
            cluster = SimulatedCluster(random.Random(7), meta=1, data=2, session=2)
            cluster.network = MemoryNetwork.current()  # which the gateway's own client uses, too
            async with cluster:
                await _with_gateway(cluster, story, faces, access, settings or {})

    asyncio.run(scene())


async def _with_gateway(
    cluster: SimulatedCluster, story: Story, faces: str, access: Access | None, settings: Mapping[str, object]
) -> None:
    sessions = ",".join(cluster.address(name) for name in cluster.names if name.startswith("session"))
    flags = {
        "cluster.slots": 16,
        "cluster.meta": {"meta-1": cluster.address("meta-1")},
        "transport.use": "memory",
        "gateway.sessions": sessions,
        "gateway.directory_seconds": 0.1,
        "face.use": faces,
        **settings,
    }
    clock = LoopClock()
    transport = MemoryTransport(clock, "gateway", cluster.network)
    node = Node("gateway-1", Role.GATEWAY, "127.0.0.1:0", "gateway-1@1")
    gateway = StagedGateway(load_settings(None, {}, flags), clock, transport, node, access)
    await gateway.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://{gateway.address}", timeout=30) as client:
            await story(Stage(cluster, gateway, client, cluster.client()))
    finally:
        await gateway.stop()
        await transport.close()
