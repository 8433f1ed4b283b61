"""A simulated cluster with a gateway that has the face ``admin``, and a client with something to see."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from slotreeve.clock import LoopClock
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve_client import Client
from slotreeve_conformance.virtual_time import run
from slotreeve_gateway import GatewayAccess
from slotreeve_gateway.token_access import TokenAccess
from slotreeve_protocol.tokens import Token, Tokens, new_token
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_gateway import GatewayAnswer, SimulatedGateway
from slotreeve_transport_memory.transport import MemoryTransport

SERVICE = "com.example.Shop"
JSON = {"Content-Type": "application/json", "Host": "127.0.0.1:7740"}
SCRIPT = "<script>alert('1')</script>"


class AdminScene:
    """What a test has: the cluster, a gateway with the face, and a client of the registry that publishes
    ``com.example.Shop`` and subscribes to it."""

    def __init__(self, cluster: SimulatedCluster, gateway: SimulatedGateway, client: Client) -> None:
        self.cluster, self.gateway, self.client = cluster, gateway, client

    async def read(self, path: str, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON of a page below /v1/admin; it must be there."""
        return (await self.gateway.ask("GET", f"/v1/admin/{path}", headers=headers)).json

    async def act(
        self, method: str, path: str, body: object = b"", headers: Mapping[str, str] | None = None
    ) -> GatewayAnswer:
        """An act below /v1/admin."""
        return await self.gateway.ask(method, f"/v1/admin/{path}", body, {**JSON, **(headers or {})})

    async def done(self, method: str, path: str, body: object = b"") -> Any:
        """The JSON of an act that is carried out."""
        return (await self.act(method, path, body)).json

    async def connect_as(self, client_id: str) -> None:
        """Let a client connect to a session server under an id of its choice."""
        transport = MemoryTransport(self.cluster.process_clock("rogue"), "rogue", self.cluster.network)
        hello = Hello("slotreeve", client_id, Role.CLIENT, "rogue@1")
        await transport.connect(self.cluster.address("session-1"), hello, _Silent(), 2.0)

    async def state(self) -> object:
        """All that an act may change."""
        election = await self.read("election")
        keys = await self.read("configuration")
        others = await self.read("overrides"), await self.settings()
        return await self.read("orders"), keys, (election["leader"], election["term"]), others

    async def settings(self) -> dict[str, object]:
        """The live settings that an operator has changed."""
        return {one["name"]: one["value"] for one in (await self.read("settings"))["settings"] if one["live"]}


class _Silent:
    def opened(self, connection: Connection) -> None:
        return

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        return

    def closed(self, connection: Connection, reason: str) -> None:
        return


def on_admin(
    story: Callable[[AdminScene], Awaitable[None]],
    access: GatewayAccess | None = None,
    options: Mapping[str, object] | None = None,
    meta: int = 1,
    history: Path | None = None,
) -> None:
    """Run a story on a settled cluster with some meta servers, three data and two session servers. ``history``: where
    they keep theirs, if they keep one."""
    settings = {} if history is None else {"history.directory": str(history)}

    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=meta, data=3, session=2, settings=settings) as cluster:
            gateway = SimulatedGateway(cluster, "gateway-1", access)
            await gateway.start_face("admin", options)
            client = cluster.client(name="shop")
            await client.publish(SERVICE, "10.0.0.1:80").acknowledged()
            await client.subscribe(SERVICE, lambda _: None).ready()
            await story(AdminScene(cluster, gateway, client))

    run(scenario, seed=3)


def access_with(*rights: str, name: str = "ci-1") -> tuple[TokenAccess, dict[str, str]]:
    """An access that knows one token with these rights, and the headers of a request with it."""
    text, token_id, secret_hash = new_token(random.Random(1).randbytes)
    access = TokenAccess(_Wall())
    access.take(Tokens().issued(token_id, Token(name, secret_hash, rights)).encode())
    return access, {"Authorization": f"Bearer {text}"}


class _Wall(LoopClock):
    """A wall clock that stands."""

    def __init__(self) -> None:
        return

    def wall_ms(self) -> int:
        return 0
