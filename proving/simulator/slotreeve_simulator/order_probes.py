"""An operator orders something in a calm cluster: it must come about, and nothing else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
from slotreeve.errors import RequestTimeout
from slotreeve.keys import split_name
from slotreeve_protocol.orders import Orders
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.session.server import SessionServer

from slotreeve_simulator.clients_watch import ClientsWatch
from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.probes import DRIFT, POLL_SECONDS, ProbedClients
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.simulated_operator import Operator
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict

SOON_SECONDS = 2.0
"""An order that is stored is followed by then: a session server that misses a push of it reads it with a heartbeat."""
HELD_SECONDS = 3.0
"""For so long it must stay as ordered."""


class OrderedClients(ProbedClients, Protocol):
    """The clients of a run, and what they see."""

    def seen(self) -> dict[str, list[dict[int, int]]]:
        """What each subscription of each client shows now."""


class OrderProbes:
    """Probes of one run. Each begins and ends with a calm cluster without orders.

    Args:
        heal_seconds: by when a server that is banned has nothing any more.
    """

    def __init__(
        self,
        cluster: ScenarioCluster,
        clients: OrderedClients,
        operator: Operator,
        watches: tuple[ClientsWatch, ServersWatch],
        heal_seconds: float,
        trace: Trace,
        verdict: RunVerdict,
    ) -> None:
        self._cluster, self._clients, self._operator = cluster, clients, operator
        self._clients_watch, self._servers_watch = watches
        self._heal_seconds, self._trace, self._verdict = heal_seconds, trace, verdict

    async def one(self, rng: random.Random) -> bool:
        """Give one order, look whether it is followed, and take it back. Returns whether there is an operator."""
        if not self._operator.is_there:
            return False
        probes: Sequence[Callable[[random.Random], Awaitable[None]]] = (
            self.ends_frozen,
            self.pushes_stopped,
            self.client_off,
            self.server_banned,
        )
        probe = rng.choice(probes)
        self._trace.note(Weight.FAULT, f"probe of an order: {probe.__name__}")
        await probe(rng)
        await self._operator.order(lambda _: Orders())
        return True

    async def ends_frozen(self, rng: random.Random) -> None:
        """A client dies while no registration may end: all that it had must stay, and end once it may."""
        name = rng.choice(self._clients.running)
        await self._order(ends_frozen=True)
        before = self._clients.seen()
        self._cluster.kill(name)
        session, data = self._cluster.settings.session, self._cluster.settings.data
        await asyncio.sleep((session.linger_seconds + 2 * data.session_grace_seconds) * DRIFT + SOON_SECONDS)
        after = self._clients.seen()
        if any(after[other] != before[other] for other in self._clients.running if other != name):
            self._verdict.violate("I14", f"the ends of registrations are frozen, and something of {name} has ended")
        self._clients.ended(name)
        self._clients.come(name)

    async def pushes_stopped(self, rng: random.Random) -> None:
        """A client changes something while pushes are stopped: nobody may see it before they go on."""
        await self._order(push_stopped=True)
        before = self._clients.seen()
        self._clients.change_one(rng.choice(self._clients.running))
        await asyncio.sleep(HELD_SECONDS)
        if self._clients.seen() != before:
            self._verdict.violate("order", "pushes are stopped, and a subscriber sees a change")

    async def client_off(self, rng: random.Random) -> None:
        """A client is switched off: the others see all but what it has published, also once it has connected again."""
        name = rng.choice(self._clients.running)
        self._clients_watch.off = frozenset({name})
        await self._order(clients_off=frozenset({name}))
        await self._until(lambda: self._clients.unconverged() is None, f"{name} is switched off", SOON_SECONDS)
        for server in dict.fromkeys(self._cluster.network.connections(name)):
            self._cluster.network.cut(name, server)
        await asyncio.sleep(HELD_SECONDS)
        await self._until(lambda: self._clients.unconverged() is None, f"{name} is switched off", SOON_SECONDS)
        await self._operator.order(lambda _: Orders())
        self._clients_watch.off = frozenset()
        await self._until(lambda: self._clients.unconverged() is None, f"{name} is switched on", SOON_SECONDS)

    async def server_banned(self, rng: random.Random) -> None:
        """A server is banned: it has nothing soon, and nobody misses anything meanwhile (I12)."""
        running = self._cluster.servers
        by_kind = [[n for n, s in running.items() if isinstance(s, kind)] for kind in (DataServer, SessionServer)]
        candidates = [name for names in by_kind if len(names) > 1 for name in names]
        if not candidates:
            return
        name = rng.choice(candidates)
        self._servers_watch.leaving.add(name)
        await self._order(banned=frozenset({name}))
        await self._until(lambda: not self._has_anything(name), f"{name} is banned", self._heal_seconds)

    def _has_anything(self, name: str) -> bool:
        server = self._cluster.servers[name]
        if isinstance(server, DataServer):
            return bool(server.core.slots.held)
        addresses = (split_name(client.server or "")[1] for client in self._cluster.clients.values())
        return self._cluster.address(name) in addresses

    async def _order(self, **orders: object) -> None:
        await self._operator.order(lambda before: msgspec.structs.replace(before, **orders))
        await asyncio.sleep(SOON_SECONDS)

    async def _until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        try:
            await self._cluster.until(condition, what, seconds, POLL_SECONDS)
        except RequestTimeout:
            problem = self._clients.unconverged() or "nothing else is wrong"
            self._verdict.violate("order", f"{what}; after {seconds:g} s it is not so: {problem}")
