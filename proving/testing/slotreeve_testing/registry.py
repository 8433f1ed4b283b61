"""A whole registry in the process of a test."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from slotreeve.errors import RequestTimeout
from slotreeve_client import Client, Provider
from slotreeve_face_dns.face import DnsFace
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.session.server import SessionServer

from slotreeve_testing.life import GATEWAY, READY_SECONDS, FailureInServer, RegistryLife, RegistryOptions

READER = "reader"


class RegistryUnderTest:
    """A running registry. Get one from :func:`registry`; use it on its event loop only.

    Time passes in it by itself, at the pace of the wall or more slowly, and at once in :meth:`advance` and
    :meth:`until`. Every verb raises :class:`FailureInServer` where something in a server has failed.
    """

    def __init__(self, life: RegistryLife, options: RegistryOptions) -> None:
        self._life, self._options = life, options
        self._cluster, self._timeline = life.cluster, life.timeline
        self._killed: list[str] = []

    # --- where it is ---------------------------------------------------------------------------------------------

    @property
    def gateway_url(self) -> str:
        """``http://127.0.0.1:PORT``: the gateway, which speaks REST, Consul, Eureka, Prometheus and Envoy (REST)."""
        return f"http://{self._life.gateway.address}"

    @property
    def dns_address(self) -> tuple[str, int]:
        """Host and port of DNS, over UDP and TCP. Raises KeyError: the gateway has no such face."""
        face = self._life.gateway.faces["dns"]
        assert isinstance(face, DnsFace)
        return self._life.gateway.address.rpartition(":")[0], face.port

    @property
    def session_addresses(self) -> list[str]:
        """``host:port`` of the session servers, for SDK clients that are not made by :meth:`connect`.

        Raises:
            RuntimeError: the registry has no doors, so nobody would answer there.
        """
        if not self._options.doors:
            raise RuntimeError("this registry has no doors: make it with registry(doors=True), or use connect()")
        return [self._cluster.address(name) for name in self._cluster.names if name.startswith("session-")]

    @property
    def servers(self) -> list[str]:
        """Names of the running servers, as ``data-1``."""
        return list(self._cluster.servers)

    def address(self, name: str) -> str:
        """The address of a server, as :attr:`slotreeve_client.Client.server` has it."""
        return self._cluster.address(name)

    @property
    def outsiders(self) -> list[str]:
        """Ids of the SDK clients that are connected from outside, by a door."""
        return sorted(client for name in self._cluster.servers for client in self._cluster.outsiders(name))

    @property
    def meta_leader(self) -> str | None:
        """The meta server that leads; None: none does now."""
        return self._cluster.leader

    # --- clients -------------------------------------------------------------------------------------------------

    def connect(self, name: str = "", **options: object) -> Client:
        """A client of the SDK, as :func:`slotreeve_client.connect` makes one, whose time is that of the registry. Use
        it as an asynchronous context manager or close it; what is open at the end of the registry is closed then.

        Args:
            name: what :meth:`cut` calls it; by default ``client-1`` and so on.
            options: fields of :class:`slotreeve_client.ClientOptions`.

        Raises:
            ValueError: there is a process of this name.
        """
        if name and (name in self._cluster.clients or name in self._cluster.names or name in (GATEWAY, READER)):
            raise ValueError(f"there is a process {name!r} already; give the client another name")
        return self._cluster.client(name=name, **options)

    async def instances(self, service: str) -> tuple[Provider, ...]:
        """The providers of a service now, read from the leader of its slot."""

        async def read() -> tuple[Provider, ...]:
            clients = self._cluster.clients
            return await (clients[READER] if READER in clients else self._cluster.client(name=READER)).get(service)

        return await self._life.inside(read())

    # --- time ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds on the clock of the registry; only differences mean something."""
        return self._timeline.time()

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass at once. Whatever is due in them happens, in order. Programs whose time is real do
        nothing meanwhile, as if they had been suspended; SDK clients behind a door count as alive."""
        await self._timeline.advance(seconds)
        self._life.raise_failures()

    async def until(self, condition: Callable[[], object], what: str = "", seconds: float = 60.0) -> float:
        """Let time pass at once until ``condition()`` is true. It may be a coroutine function; while it is awaited,
        time passes at the pace of the wall. Returns the seconds that passed in the registry.

        Raises:
            RequestTimeout: not within ``seconds``.
        """
        began = self.now
        while True:
            answer = condition()
            if inspect.isawaitable(answer):
                answer = await answer
            self._life.raise_failures()
            if answer:
                return self.now - began
            if self.now - began > seconds:
                raise RequestTimeout(f"not within {seconds:g} s of the registry: {what or condition}")
            await self._timeline.skip()

    async def skip_or_fail(self, seconds_left: float, what: str) -> None:
        """One step of :meth:`until`. Raises RequestTimeout: no seconds are left."""
        if seconds_left < 0:
            raise RequestTimeout(f"it did not happen in time: {what}")
        await self._timeline.skip()
        self._life.raise_failures()

    async def settled(self, seconds: float = READY_SECONDS) -> float:
        """Let time pass at once until every running server has the same view of the cluster and every slot its copies.
        Returns the seconds that passed. Raises RequestTimeout: not within ``seconds``."""
        return await self.until(self._cluster.is_settled, "the cluster has settled", seconds)

    # --- what happens to servers ---------------------------------------------------------------------------------

    async def kill(self, name: str) -> str:
        """SIGKILL for a server: its peers see their connections end. Returns the name, once SDK clients outside that
        were connected to it are at another one, after two seconds at the latest.

        Raises:
            ValueError: no server of this name runs.
        """
        self._check(name)
        outsiders = self._cluster.outsiders(name)
        self._cluster.kill(name)
        self._killed.append(name)
        await self._cluster.close_door(name)  # it waits for real sockets: not a moment for skipping
        await self._cluster.outsiders_are_back(outsiders)
        self._life.raise_failures()
        return name

    async def kill_session(self, name: str = "") -> str:
        """Kill a session server: by default the one with the most clients of the test. Returns its name."""
        running = [n for n, server in self._cluster.servers.items() if isinstance(server, SessionServer)]
        clients = [client for n, client in self._cluster.clients.items() if n != READER]
        counts = {
            n: sum(client.server == self._cluster.address(n) for client in clients) + len(self._cluster.outsiders(n))
            for n in running
        }
        return await self.kill(name or self._most(counts, "session"))

    async def kill_data(self, name: str = "") -> str:
        """Kill a data server: by default one that leads the most slots. Returns its name."""
        led = {n: 0 for n, s in self._cluster.servers.items() if isinstance(s, DataServer)}
        for row in self._cluster.views()[0].table.slots if self._cluster.views() else ():
            if row.leader in led:
                led[row.leader] += 1
        return await self.kill(name or self._most(led, "data"))

    async def kill_meta_leader(self) -> str:
        """Kill the meta server that leads. Returns its name. Raises ValueError: none leads now."""
        leader = self._cluster.leader
        if leader is None:
            raise ValueError("no meta server leads now; wait with until(lambda: registry.meta_leader)")
        return await self.kill(leader)

    async def restart(self, name: str = "") -> None:
        """Start a killed server again; a running one is killed before. By default: all that were killed.

        Raises:
            ValueError: there is no server of this name.
        """
        if name and name not in self._cluster.names:
            raise ValueError(f"there is no server {name!r}; there are {', '.join(self._cluster.names)}")
        if name in self._cluster.servers:
            await self.kill(name)
        for each in [name] if name else [*self._killed]:
            await self._life.inside(self._cluster.start(each))
            self._killed.remove(each)
        self._life.raise_failures()

    def freeze(self, name: str) -> None:
        """SIGSTOP for a server: its connections stay open, and it does nothing. Raises ValueError."""
        self._check(name)
        self._cluster.freeze(name)

    def thaw(self, name: str) -> None:
        """SIGCONT. Raises ValueError."""
        self._check(name)
        self._cluster.thaw(name)

    def cut(self, first: str, second: str) -> None:
        """Let nothing pass between two processes any more, servers or clients of :meth:`connect`; the gateway is
        ``gateway-1``. Their connections stay open, as where a network loses packets.

        Raises:
            ValueError: there is no process of one of these names.
        """
        for name in (first, second):
            if name not in self._cluster.network.endpoints:
                there = ", ".join(sorted(self._cluster.network.endpoints))
                raise ValueError(f"there is no process {name!r}; there are {there}")
        self._cluster.network.partition([first], [second])

    def heal(self) -> None:
        """End every :meth:`cut`."""
        self._cluster.network.heal()

    def _check(self, name: str) -> None:
        if name not in self._cluster.servers:
            raise ValueError(f"no server {name!r} runs; these do: {', '.join(self.servers)}")

    def _most(self, counts: Mapping[str, int], role: str) -> str:
        if not counts:
            raise ValueError(f"no {role} server runs")
        return max(sorted(counts), key=lambda name: counts[name])


@asynccontextmanager
async def registry(options: RegistryOptions | None = None, **fields: Any) -> AsyncIterator[RegistryUnderTest]:
    """A whole registry in the running event loop: meta, data and session servers, and a gateway with every face.

    Args:
        options: what it is made of.
        fields: instead of ``options``, fields of :class:`RegistryOptions`, as ``session=3``.

    Raises:
        FailureInServer: something in a server failed. Where the block raised as well, its error is raised, with a note.
    """
    chosen = options if options is not None else RegistryOptions(**fields)
    made = RegistryLife(chosen)
    try:
        await made.start()
        yield RegistryUnderTest(made, chosen)
    except BaseException as error:
        try:
            await made.close()
        except FailureInServer as failed:
            error.add_note(str(failed))
        raise
    await made.close()
