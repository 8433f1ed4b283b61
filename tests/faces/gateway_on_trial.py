"""Gateways with faces on a simulated cluster, and their callers, in one process and virtual time."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from slotreeve.errors import Forbidden, Unauthenticated
from slotreeve.ports import Context
from slotreeve_client import Client
from slotreeve_client.administration import change_overrides
from slotreeve_conformance.virtual_time import run
from slotreeve_face_consul import ConsulOptions
from slotreeve_face_consul.face import ConsulFace
from slotreeve_face_eureka import EurekaOptions
from slotreeve_face_eureka.face import EurekaFace
from slotreeve_gateway import Caller, FacePages, Gateway, Registry, Right, ServiceDirectory
from slotreeve_gateway.access import OpenAccess
from slotreeve_gateway.views import Views
from slotreeve_protocol.overrides import Overrides
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

TTL = 6.0
ENDED = TTL + 3.0
"""After so long a lease that nobody renews has ended (docs/leases.md)."""


class Answered(msgspec.Struct):
    """An answer.

    Attributes:
        seconds: virtual time that it took.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        assert self.status == 200, self
        return json.loads(self.body)

    @property
    def index(self) -> int:
        return int(self.headers["x-consul-index"])


class SomeAccess:
    """Two tokens: ``reader`` may see services that begin with ``open``, ``writer`` may also register there."""

    def caller(self, token: str | None) -> Caller:
        if token not in ("reader", "writer"):
            raise Unauthenticated("no such token")
        return _TokenHolder(token)


class _TokenHolder:
    def __init__(self, name: str) -> None:
        self.name = name

    def may(self, right: Right, service: str) -> bool:
        return service.startswith("open") and (right is Right.READ or (right, self.name) == (Right.REGISTER, "writer"))

    def require(self, right: Right, service: str) -> None:
        if not self.may(right, service):
            raise Forbidden(f"{self.name} may not {right} {service}")


class GatewayOnTrial:
    """One gateway with the faces of Consul and Eureka, and requests to it; ``options`` are Consul's. It may be thrown
    away: nothing else knows it."""

    def __init__(self, cluster: SimulatedCluster, name: str, client: Client, checked: bool, **options: object) -> None:
        clock, rng = cluster.clock(name), cluster.chance(name)

        async def change(change: Callable[[Overrides], Overrides]) -> Overrides:
            tool = MemoryTransport(clock, f"{name}-tool-{next(_numbers)}", cluster.network)
            return await change_overrides(tool, "slotreeve", [cluster.address("meta-1")], change)

        self.views = Views(client, clock, 100, 60)
        self.registry = Registry(client, self.views, ServiceDirectory(client, clock, 1.0), change)
        self.pages = FacePages()
        access = SomeAccess() if checked else OpenAccess()
        gateway = Gateway(self.registry, access, self.pages, clock, rng, name, "east", "slotreeve", "10.9.9.9")
        context = Context("slotreeve", 256, clock, rng, name, gateway=gateway)
        self.face = ConsulFace(ConsulOptions.model_validate(options), context)
        self.eureka = EurekaFace(EurekaOptions(), context)
        self._clock = clock

    async def ask(
        self, method: str, path: str, body: object = b"", headers: Mapping[str, str] | None = None, leave: float = 0
    ) -> Answered:
        """Send a request. ``leave``: close the connection after so long, if there is no answer yet."""
        began = self._clock.now()
        path, _, query = path.partition("?")
        given = body if isinstance(body, bytes) else json.dumps(body).encode()
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": ("10.7.7.7", 5000),
        }
        messages = [{"type": "http.request", "body": given, "more_body": False}]
        said: list[Any] = []

        async def receive() -> Any:
            if messages:
                return messages.pop()
            if leave:
                await asyncio.sleep(began + leave - self._clock.now())
                return {"type": "http.disconnect"}
            return await asyncio.get_running_loop().create_future()

        async def send(message: Any) -> None:
            said.append(message)

        await self.pages(scope, receive, send)
        if not said:
            return Answered(0, {}, b"", self._clock.now() - began)
        start, end = said
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answered(start["status"], found, end["body"], self._clock.now() - began)

    async def get(self, path: str, **more: Any) -> Answered:
        return await self.ask("GET", path, **more)

    async def put(self, path: str, body: object = b"", **more: Any) -> Answered:
        return await self.ask("PUT", path, body, **more)

    async def register(self, name: str, service_id: str = "", **fields: object) -> None:
        given = {"Name": name, "ID": service_id, "Address": "10.0.0.1", "Port": 80, "Check": {"TTL": f"{TTL:g}s"}}
        answer = await self.put("/v1/agent/service/register", given | fields)
        assert answer.status == 200, answer

    async def statuses(self, name: str) -> dict[str, str]:
        """Health by id, as a client sees it."""
        entries = (await self.get(f"/v1/health/service/{name}")).json
        return {entry["Service"]["ID"]: entry["Checks"][0]["Status"] for entry in entries}


_numbers = itertools.count(1)
Scenario = Callable[["Trial"], Awaitable[None]]


class Trial:
    """A cluster, and gateways in front of it."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster

    async def gateway(self, checked: bool = False, **options: object) -> GatewayOnTrial:
        """One more gateway. ``checked``: it asks for tokens, see :class:`SomeAccess`."""
        name = f"gateway-{next(_numbers)}"
        made = GatewayOnTrial(self.cluster, name, self.cluster.client(name=name), checked, **options)
        await made.face.start()
        await made.eureka.start()
        return made


def play(scenario: Scenario, seed: int = 1, settings: Mapping[str, object] | None = None) -> None:
    """Play a scenario in virtual time."""

    async def main(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings=settings) as cluster:
            await scenario(Trial(cluster))

    run(main, seed=seed)
