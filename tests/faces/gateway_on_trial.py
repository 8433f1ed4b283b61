"""Gateways with faces on a simulated cluster, and their callers, in one process and virtual time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from slotreeve.errors import Forbidden, Unauthenticated
from slotreeve.ports import Face
from slotreeve_conformance.virtual_time import run
from slotreeve_gateway import Caller, Right
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_gateway import GatewayAnswer, SimulatedGateway

TTL = 6.0
ENDED = TTL + 3.0
"""After so long a lease that nobody renews has ended (docs/leases.md)."""


class ConsulReply(GatewayAnswer):
    """An answer with the index of a blocking query."""

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
        self.name = self.author = name

    def may(self, right: Right, service: str) -> bool:
        return service.startswith("open") and (right is Right.READ or (right, self.name) == (Right.REGISTER, "writer"))

    def require(self, right: Right, service: str) -> None:
        if not self.may(right, service):
            raise Forbidden(f"{self.name} may not {right} {service}")


class GatewayOnTrial(SimulatedGateway):
    """One gateway with the faces of Consul and Eureka, and what tests of Consul ask."""

    @property
    def face(self) -> Face:
        """The face of Consul."""
        return self.faces["consul"]

    async def get(self, path: str, **more: Any) -> ConsulReply:
        return _reply(await self.ask("GET", path, **more))

    async def put(self, path: str, body: object = b"", **more: Any) -> ConsulReply:
        return _reply(await self.ask("PUT", path, body, **more))

    async def register(self, name: str, service_id: str = "", **fields: object) -> None:
        given = {"Name": name, "ID": service_id, "Address": "10.0.0.1", "Port": 80, "Check": {"TTL": f"{TTL:g}s"}}
        answer = await self.put("/v1/agent/service/register", given | fields)
        assert answer.status == 200, answer

    async def statuses(self, name: str) -> dict[str, str]:
        """Health by id, as a client sees it."""
        entries = (await self.get(f"/v1/health/service/{name}")).json
        return {entry["Service"]["ID"]: entry["Checks"][0]["Status"] for entry in entries}


def _reply(answer: GatewayAnswer) -> ConsulReply:
    return ConsulReply(answer.status, answer.headers, answer.body, answer.seconds)


_numbers = itertools.count(1)
Scenario = Callable[["Trial"], Awaitable[None]]


class Trial:
    """A cluster, and gateways in front of it."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster

    async def gateway(self, checked: bool = False, **options: object) -> GatewayOnTrial:
        """One more gateway. ``checked``: it asks for tokens, see :class:`SomeAccess`; ``options`` are Consul's."""
        made = GatewayOnTrial(self.cluster, f"gateway-{next(_numbers)}", SomeAccess() if checked else None)
        await made.start_face("consul", options)
        await made.start_face("eureka")
        return made


def play(scenario: Scenario, seed: int = 1, settings: Mapping[str, object] | None = None) -> None:
    """Play a scenario in virtual time."""

    async def main(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings=settings) as cluster:
            await scenario(Trial(cluster))

    run(main, seed=seed)
