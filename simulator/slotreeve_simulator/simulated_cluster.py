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
import itertools
import random
from collections.abc import Callable, Mapping
from types import TracebackType

from slotreeve.catalogue import Catalogue
from slotreeve.clock import Timer
from slotreeve.errors import RequestTimeout
from slotreeve.model.nodes import Role
from slotreeve_client import Client, ClientOptions
from slotreeve_conformance.virtual_time import START_SECONDS, VirtualClock
from slotreeve_machines.storage import MemoryStorage
from slotreeve_protocol.meta_messages import Stopping, View
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.launch import Launcher, Server
from slotreeve_servers.meta.server import MetaServer
from slotreeve_servers.session.server import SessionServer
from slotreeve_servers.settings import load_settings
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from slotreeve_simulator.processor import SimulatedProcessor

POLL_SECONDS = 0.005
FIRST_PORT = 7700
SHORTEST_WAIT_SECONDS = 1e-9
"""Shortest wait of a drifting clock. With a shorter one, a rounding error could keep the loop's time from advancing."""


class ProcessTimer:
    """A timer of a process, which may have to wait for the processor after it is due."""

    timer: Timer

    def cancel(self) -> None:
        """See :class:`slotreeve.clock.Timer`."""
        self.timer.cancel()


class ProcessClock(VirtualClock):
    """The clock of one simulated process. The timers of a killed process never run; those of a frozen process wait, in
    order.

    ``drift`` makes the clock fast: with 0.01, it shows 101 seconds for 100. A timer waits until ``processor`` is free.
    """

    def __init__(self, wall_skew_ms: int = 0, drift: float = 0.0, processor: SimulatedProcessor | None = None) -> None:
        super().__init__(wall_skew_ms=wall_skew_ms)
        self._processor = processor
        self._rate = 1.0 + drift
        self._dead = False
        self._frozen = False
        self._held: list[Callable[[], None]] = []

    def kill(self) -> None:
        """The process was killed."""
        self._dead = True
        self._held.clear()

    def freeze(self) -> None:
        """The process is frozen."""
        self._frozen = True

    def thaw(self) -> None:
        """The process goes on; timers that were due meanwhile run now."""
        self._frozen = False
        held, self._held = self._held, []
        for action in held:
            super().call_soon(action)

    def now(self) -> float:
        """Seconds of this process's monotonic clock."""
        return START_SECONDS + (super().now() - START_SECONDS) * self._rate

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """As on the loop, unless the process is killed or frozen by then."""
        wait = max(SHORTEST_WAIT_SECONDS, seconds / self._rate) if seconds > 0 else seconds
        timer = ProcessTimer()
        timer.timer = super().call_later(wait, lambda: self._act_when_free(timer, action))
        return timer

    def call_soon(self, action: Callable[[], None]) -> None:
        """As on the loop, unless the process is killed or frozen by then."""
        super().call_soon(lambda: self._act(action))

    async def sleep(self, seconds: float) -> None:
        """As on the loop; the sleep of a killed process never ends."""
        over = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    def _act_when_free(self, timer: ProcessTimer, action: Callable[[], None]) -> None:
        """A timer is due."""
        processor = self._processor
        if processor is not None and not self._dead and not self._frozen:
            wait = processor.busy_for()
            if wait > 0:
                timer.timer = super().call_later(wait, lambda: self._act_when_free(timer, action))
                return
        self._act(action)
        if processor is not None:
            processor.timer_ran()

    def _act(self, action: Callable[[], None]) -> None:
        if self._frozen:
            self._held.append(action)
        elif not self._dead:
            action()


class SimulatedCluster:
    """A cluster of servers named ``meta-1``, ``data-1``, ``session-1``, ... All random numbers come from ``rng``.

    Use it as an asynchronous context manager on a virtual event loop. Entering waits until the cluster has settled;
    leaving stops all processes. ``settings`` has dotted keys, as ``--set``. ``limits``: of every connection; together
    with the setting ``node.part_bytes`` they make a small service go in parts.

    Attributes:
        drifts: drift of a process's clock (:class:`ProcessClock`) by name, from its next start on.
    """

    def __init__(
        self,
        rng: random.Random,
        meta: int = 3,
        data: int = 3,
        session: int = 2,
        settings: Mapping[str, object] | None = None,
        limits: ChannelLimits | None = None,
    ) -> None:
        self.rng, self._limits = rng, limits
        self.network = MemoryNetwork()
        self.servers: dict[str, Server] = {}
        self._clocks: dict[str, ProcessClock] = {}
        self._disks: dict[str, MemoryStorage] = {}
        self.clients: dict[str, Client] = {}
        self.drifts: dict[str, float] = {}
        self._dead: list[object] = []
        self.catalogue = Catalogue.load()
        self._client_numbers = itertools.count(1)
        self._ports = itertools.count(FIRST_PORT, 4)
        self._addresses: dict[str, str] = {}
        for role, count in ((Role.META, meta), (Role.DATA, data), (Role.SESSION, session)):
            for number in range(count):
                self.address(f"{role}-{number + 1}")
        self._settings = {"cluster.slots": 16, "cluster.meta": _of_role(self._addresses, Role.META), **(settings or {})}

    def address(self, name: str) -> str:
        """The address of a server, whether it runs or not."""
        return self._addresses.setdefault(name, f"127.0.0.1:{next(self._ports)}")

    @property
    def names(self) -> list[str]:
        """Names of all servers that have an address, in the order in which they start."""
        return list(self._addresses)

    # --- processes -----------------------------------------------------------------------------------------------

    async def start(self, name: str, wall_skew_ms: int = 0, **settings: object) -> Server:
        """Start a server. After :meth:`kill` it has the disk from before.

        A data or session server may have any new name that starts with its role. ``settings`` are its own, with
        ``__`` for the dots; ``wall_skew_ms`` sets its wall clock wrong.
        """
        role = Role(name.partition("-")[0])
        flags = {
            **self._settings,
            "node.name": name,
            "node.advertise": self.address(name),
            "election.fle.data_dir": name,
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        clock = self.process_clock(name, wall_skew_ms)
        launcher = Launcher(load_settings(None, {}, flags), self.catalogue, clock, self.chance(name))
        environment = launcher.environment(role, MemoryTransport(clock, name, self.network, self._limits))
        server = self.servers[name] = launcher.server(environment, self._open_disk)
        await server.start()
        return server

    def _open_disk(self, path: str) -> MemoryStorage:
        return self._disks.setdefault(path, MemoryStorage(path)).open()

    def kill(self, name: str) -> None:
        """SIGKILL: the process ends, its peers see their connections end, its disk stays."""
        self._clocks[name].kill()
        self.network.kill(name)
        # Killed processes are kept to the end, because their tasks sleep for ever and must not be garbage-collected.
        self._dead += [self.servers.pop(name, None), self.clients.pop(name, None)]
        if name in self._disks:
            self._disks[name].crash()

    def wipe(self, name: str) -> None:
        """Remove a killed server's disk. Its next start has an empty one."""
        self._disks.pop(name, None)

    def disk(self, name: str) -> MemoryStorage | None:
        """A meta server's disk; None if it has none yet."""
        return self._disks.get(name)

    def freeze(self, name: str) -> None:
        """SIGSTOP: the process is frozen, its connections stay open."""
        self._clocks[name].freeze()
        self.network.freeze(name)

    def thaw(self, name: str) -> None:
        """SIGCONT: the process goes on."""
        self.network.thaw(name)
        self._clocks[name].thaw()

    async def stop(self, name: str, how: Stopping = Stopping.FOR_GOOD) -> None:
        """SIGTERM: stop the server in an orderly way (``how`` FOR_A_RESTART: SIGHUP)."""
        await self.servers[name].stop(how)
        del self.servers[name]
        self.network.kill(name)
        if name in self._disks:
            self._disks[name].crash()

    def client(self, *sessions: str, name: str = "", **options: object) -> Client:
        """A client in a new process, with the addresses of these session servers (default: all). It can be killed."""
        name = name or f"client-{next(self._client_numbers)}"
        clock = self.process_clock(name)
        chosen = ClientOptions.model_validate(options)
        addresses = [self._addresses[session] for session in sessions or _of_role(self._addresses, Role.SESSION)]
        client = Client(
            addresses, chosen, MemoryTransport(clock, name, self.network, self._limits), clock, self.chance(name)
        )
        self.clients[name] = client
        return client

    def process_clock(self, name: str, wall_skew_ms: int = 0) -> ProcessClock:
        """The clock of a new process ``name``: a server, a client, or something else."""
        clock = self._clocks[name] = ProcessClock(wall_skew_ms, self.drifts.get(name, 0.0), self.processor(name))
        return clock

    def processor(self, name: str) -> SimulatedProcessor | None:
        """The processor of a new process; None where its work takes no time."""
        return None

    def clock(self, name: str) -> ProcessClock:
        """The clock of a process since its last start."""
        return self._clocks[name]

    def chance(self, name: str) -> random.Random:
        """The source of random numbers of a new process ``name``: the cluster's for all."""
        return self.rng

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


def _of_role(addresses: Mapping[str, str], role: Role) -> dict[str, str]:
    return {name: address for name, address in addresses.items() if name.startswith(f"{role}-")}
