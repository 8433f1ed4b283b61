"""How a registry under test begins, fails and ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from slotreeve.errors import AddressInUse
from slotreeve.model.nodes import Node, Role
from slotreeve_gateway import GatewayAccess
from slotreeve_gateway.server import GatewayServer
from slotreeve_servers.settings import load_settings

from slotreeve_testing.staged_cluster import StagedCluster
from slotreeve_testing.timeline import Timeline
from slotreeve_testing.watching import RegistryWatch

T = TypeVar("T")

EVERY_FACE = "rest,prometheus,envoy,admin,consul,eureka,dns,console"
GATEWAY = "gateway-1"
ATTEMPTS = 10
"""A free port may be taken by somebody else before it is used; then others are tried."""
READY_SECONDS = 60.0
COUNTED = ("loop_failures", "handler_errors")
"""What servers count of their own failures."""


class FailureInServer(Exception):
    """Something in a server of the registry has failed: an error in slotreeve or in a plugin, not in the test.

    Attributes:
        failures: what was raised; the first one is the cause of this error, too.
    """

    def __init__(self, failures: list[BaseException]) -> None:
        self.failures = failures
        told = "; ".join(f"{type(failure).__name__}: {failure}" for failure in failures)
        super().__init__(f"{len(failures)} failure(s) in servers of the registry under test: {told}")


@dataclass(frozen=True)
class RegistryOptions:
    """What a registry under test is made of.

    Attributes:
        meta: number of meta servers.
        data: number of data servers.
        session: number of session servers.
        faces: the faces of the gateway, as the setting ``face.use``.
        settings: further settings of all servers and of the gateway, with dotted keys, as ``--set``.
        access: who may do what at the gateway; None: everybody may do everything, unless the settings say otherwise.
        doors: whether SDK clients outside of its event loop can connect to ``session_addresses``: those of other
            threads and of other processes.
        seed: of all chance in the registry.
    """

    meta: int = 3
    data: int = 3
    session: int = 2
    faces: str = EVERY_FACE
    settings: Mapping[str, object] = field(default_factory=dict)
    access: GatewayAccess | None = None
    doors: bool = False
    seed: int = 1


class RegistryLife:
    """The parts of a registry under test. Make it on a running event loop, :meth:`start` it, and :meth:`close` it.

    Attributes:
        cluster: the servers, and the clients that live on their time.
        timeline: their time.
    """

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._gateway: GatewayServer | None = None
        self._watch = watch = RegistryWatch()
        self.timeline = timeline = Timeline(watch.failed)
        counts = {"meta": options.meta, "data": options.data, "session": options.session}
        try:
            self.cluster = StagedCluster(counts, options.settings, options.seed, timeline, watch, options.doors)
        except BaseException:
            timeline.abandon()
            watch.close()
            raise

    @property
    def gateway(self) -> GatewayServer:
        """The gateway."""
        assert self._gateway is not None, "the registry has not started"
        return self._gateway

    async def start(self) -> None:
        """Start everything and wait until it serves. Raises what a server raises."""
        for name in self.cluster.names:
            await self.inside(self.cluster.start(name))
        await self.cluster.ready(READY_SECONDS)
        for attempt in range(ATTEMPTS):
            try:
                await self.inside(self._start_gateway())
                break
            except AddressInUse:
                if attempt + 1 == ATTEMPTS:
                    raise
        await self.cluster.until(self._is_connected, "the gateway is connected", READY_SECONDS)
        self.raise_failures()

    def _is_connected(self) -> bool:
        return not any(condition.problem for condition in self.gateway.readiness())

    async def _start_gateway(self) -> None:
        options, name = self._options, GATEWAY
        cluster, clock = self.cluster, self.cluster.process_clock(name)
        flags: dict[str, object] = {
            **cluster.flags,
            "transport.use": "memory",
            "gateway.sessions": ",".join(cluster.address(each) for each in cluster.names if "session" in each),
            "gateway.directory_seconds": 0.1,
            "face.use": options.faces,
            "face.dns.port": 0,
            **options.settings,
        }
        transport = cluster.transport(name)
        node = Node(name, Role.GATEWAY, "127.0.0.1:0", f"{name}@1")
        gateway = GatewayServer(
            load_settings(None, {}, flags), cluster.catalogue, clock, random.Random(1), transport, node, options.access
        )
        try:
            await gateway.start()
        except BaseException:
            await gateway.stop()
            await transport.close()
            raise
        self._gateway = gateway

    async def close(self) -> None:
        """End everything: nothing of the registry is left in the event loop, nor a socket.

        Raises:
            FailureInServer: something in a server failed.
        """
        self._look_at_counters()
        try:
            await self.timeline.hurry(self._end(), self._watch.context)
        finally:
            await self.timeline.close()
            await self._watch.end_tasks()
            self._watch.close()
        self.raise_failures()

    def _look_at_counters(self) -> None:
        """Where nothing is logged, as after ``logging.disable``, failures are counted all the same."""
        for server in [*self.cluster.servers.values(), *([self._gateway] if self._gateway is not None else [])]:
            counted = server.counters()
            failures = {name: counted[name] for name in COUNTED if counted.get(name)}
            if failures and not self._watch.has_failed:
                told = ", ".join(f"{name} {count}" for name, count in failures.items())
                self._watch.failed(RuntimeError(f"the counters of {server.address} say {told}; the log says no more"))

    async def _end(self) -> None:
        cluster = self.cluster
        cluster.network.heal()
        for name in cluster.servers:
            cluster.thaw(name)
        try:
            await asyncio.gather(*(client.close() for client in [*cluster.clients.values()]))
            if self._gateway is not None:
                await self._gateway.stop()
        finally:
            for name in cluster.servers:
                cluster.kill(name)
            await cluster.close_doors()

    async def inside(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` as one of the registry, and let time pass at once while it waits."""
        return await self.timeline.hurry(coroutine, self._watch.context.copy())

    def raise_failures(self) -> None:
        """Raise FailureInServer if something has failed since the last call."""
        if failures := self._watch.take():
            raise FailureInServer(failures) from failures[0]
