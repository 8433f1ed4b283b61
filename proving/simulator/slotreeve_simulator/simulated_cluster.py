"""A whole cluster - servers, elections, clients - in one process on the memory transport and virtual time.

::

    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            client = cluster.client()
            client.publish("com.example.Greeter", "10.0.0.1:8080")
            await client.flush()
            cluster.kill("data-1")
            ...

    virtual_time.run(scenario, seed=7)

The servers are the product's own; its launcher builds them from a configuration. Only network, disks and time are
simulated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from slotreeve.errors import RequestTimeout
from slotreeve_protocol.meta_messages import Stopping, View
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.meta.server import MetaServer
from slotreeve_servers.session.server import SessionServer

from slotreeve_simulator.simulated_processes import SimulatedProcesses

POLL_SECONDS = 0.005


class SimulatedCluster(SimulatedProcesses):
    """A cluster as an asynchronous context manager on a virtual event loop. Entering waits until the cluster has
    settled; leaving stops all processes."""

    async def __aenter__(self) -> SimulatedCluster:
        """Start every server and wait until the cluster has settled."""
        for name in self.names:
            await self.start(name)
        await self.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the clients and stop the servers. After a failed scenario the end of the event loop ends them."""
        if error is not None:
            for name in list(self.servers):
                self._ended(name)
            return
        self.network.heal()
        for name in self.network.endpoints:
            if name in self._clocks:
                self.thaw(name)
        await asyncio.gather(*(client.close() for client in self.clients.values()))
        for name in sorted(self.servers, reverse=True):
            await self.stop(name, Stopping.NO)

    # --- state ---------------------------------------------------------------------------------------------------

    def meta(self, name: str) -> MetaServer:
        """A running meta server."""
        server = self.servers[name]
        assert isinstance(server, MetaServer), name
        return server

    def data(self, name: str) -> DataServer:
        """A running data server."""
        server = self.servers[name]
        assert isinstance(server, DataServer), name
        return server

    def session(self, name: str) -> SessionServer:
        """A running session server."""
        server = self.servers[name]
        assert isinstance(server, SessionServer), name
        return server

    @property
    def leader(self) -> str | None:
        """The meta server that may act as leader now; None if none may."""
        leading = [n for n, s in self.servers.items() if isinstance(s, MetaServer) and s.leadership().leading]
        return leading[0] if len(leading) == 1 else None

    def views(self) -> list[View]:
        """The view of every running data and session server."""
        return [s.view for s in self.servers.values() if isinstance(s, DataServer | SessionServer)]

    async def until(
        self, condition: Callable[[], object], what: str, seconds: float = 30.0, poll_seconds: float = POLL_SECONDS
    ) -> float:
        """Wait until ``condition()`` is true. Returns the virtual seconds that it took.

        Raises:
            RequestTimeout: it did not happen within ``seconds``; the message says ``what``.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not condition():
            if loop.time() - began > seconds:
                raise RequestTimeout(f"not within {seconds:g} virtual seconds: {what}")
            await asyncio.sleep(poll_seconds)
        return loop.time() - began

    async def until_or_not(self, condition: Callable[[], object], seconds: float) -> bool:
        """Wait until ``condition()`` is true, but no longer than ``seconds``; whether it is."""
        with suppress(RequestTimeout):
            await self.until(condition, "whatever", seconds)
        return bool(condition())

    def is_settled(self) -> bool:
        """Whether every running server has the same view with exactly the running servers, and the leader of every slot
        serves it and its followers are in sync."""
        views = self.views()
        running = {n for n, s in self.servers.items() if isinstance(s, DataServer | SessionServer)}
        members = {node.name for node in [*views[0].data, *views[0].sessions]}
        if members != running or any(view.revision != views[0].revision for view in views):
            return False
        replicas = min(int(str(self._settings.get("cluster.replicas", 2))), len(views[0].data))
        rows = views[0].table.slots
        return (
            bool(rows)
            and all(row.leader in running and len(row.followers) == replicas - 1 for row in rows)
            and not any(s.core.slots.unsettled() for s in self.servers.values() if isinstance(s, DataServer))
        )

    async def ready(self, seconds: float = 30.0) -> float:
        """Wait until the cluster :meth:`is_settled`. Returns the virtual seconds that it took.

        Raises:
            RequestTimeout: not within ``seconds``.
        """
        return await self.until(self.is_settled, "the cluster has settled", seconds)
