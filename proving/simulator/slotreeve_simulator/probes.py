"""Latency bounds, measured in a calm cluster: a change is seen promptly, and a dead client disappears in the time that
``slotreeve explain staleness`` states."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from slotreeve.errors import RequestTimeout
from slotreeve.keys import split_name
from slotreeve_servers.data.endings.presence import FEW_CLIENTS
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.session.server import SessionServer

from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict

POLL_SECONDS = 0.02
ALLOWANCE_SECONDS = 0.75
"""For everything that is not waiting, and for the intervals of timers that look for the dead."""
DRIFT = 1.02
"""The clocks of the servers may be slow."""
HOPS = 8
"""Travel times in a row that a change may take: to the session server, to the leader, and on to the subscribers."""
WEIGHTS = (6, 2, 3, 3)
UNREACHED_GRACES = 5
"""A session server that cannot be asked delays an end by a round of marks, a grace and another round. Where many
clients are lost, those that come back have up to two more."""
BEYOND_FEW = 3
"""So many more clients die in a wave than a data server may let end."""
WAVE_SECONDS = 0.6
"""Between two of them: longer than it takes until the loss of one is looked at."""


class Death(StrEnum):
    """How a client dies at the end of a storm."""

    NONE = "none"
    KILLED = "killed"
    FROZEN = "frozen"
    KILLED_AT_FROZEN_SERVER = "killed at a frozen session server"


class ProbedClients(Protocol):
    """The clients of a run."""

    @property
    def running(self) -> list[str]:
        """Names of the clients that run."""

    def change_one(self, name: str) -> None:
        """Let a client change one of its registrations."""

    def ended(self, name: str) -> None:
        """The client ``name`` was killed: its registrations must end."""

    def come(self, name: str) -> None:
        """Start a new client in the place of ``name``."""

    def unconverged(self) -> str | None:
        """Why the clients do not see what they must see; None if they do."""


class Probes:
    """Probes of one run. Each begins and ends with a calm cluster."""

    def __init__(
        self, cluster: ScenarioCluster, clients: ProbedClients, longest_delay: float, trace: Trace, verdict: RunVerdict
    ) -> None:
        self._cluster, self._clients = cluster, clients
        self._trace, self._verdict = trace, verdict
        self._travel = HOPS * longest_delay
        settings = cluster.settings
        data, session, meta = settings.data, settings.session, settings.meta
        # Where few may end, what ended in the storm and leases that end meanwhile use that up.
        hold = data.brake_hold_seconds if data.brake_few < DataSettings().brake_few else 0.0
        self._bounds = {
            Death.KILLED: session.linger_seconds + hold,
            Death.FROZEN: session.client_lease_seconds + hold,
            Death.KILLED_AT_FROZEN_SERVER: meta.lease_seconds + max(4 * data.session_grace_seconds, hold),
        }
        self._time_to_return = data.session_grace_seconds
        self._few = data.brake_few if data.brake_share == 0.0 else 0
        self._held_seconds = min(data.brake_window_seconds, data.brake_hold_seconds)

    async def change(self) -> None:
        """A client changes a registration: its subscribers must see that soon."""
        self._clients.change_one(self._clients.running[0])
        await self._converge("a change in a calm cluster is not seen", ALLOWANCE_SECONDS)

    async def death(self, rng: random.Random) -> bool:
        """A client dies: it must have disappeared within the stated bound. Then it is started again. Returns whether
        one died."""
        how = rng.choices(list(Death), WEIGHTS)[0]
        name = rng.choice(self._clients.running)
        if how is Death.NONE:
            return False
        self._trace.note(Weight.FAULT, f"probe: {name} is {how}")
        bound = self._bounds[how] + (self._time_to_return if self._are_many_lost() else 0.0)
        server = self._server_of(name) if how is Death.KILLED_AT_FROZEN_SERVER else None
        self._clients.ended(name)
        if server is not None:
            self._cluster.freeze(server)
        if how is Death.FROZEN:
            self._cluster.freeze(name)
        else:
            self._cluster.kill(name)
        await self._converge(f"{name} is {how}", bound * DRIFT + ALLOWANCE_SECONDS)
        if server is not None:
            self._cluster.thaw(server)
        if how is Death.FROZEN:
            self._cluster.kill(name)
        self._clients.come(name)
        return True

    async def death_beside_an_unreached_server(self, rng: random.Random) -> None:
        """A client dies while the data servers do not reach a session server that is a member, and is not the client's.
        Its registrations end all the same: what cannot be asked delays them for a bounded time."""
        name = rng.choice(self._clients.running)
        own = self._server_of(name)
        sessions = [each for each, server in self._cluster.servers.items() if isinstance(server, SessionServer)]
        others = [each for each in sessions if each != own]
        if own is None or not others:
            return
        cut = rng.choice(others)
        data = [each for each, server in self._cluster.servers.items() if isinstance(server, DataServer)]
        self._trace.note(Weight.FAULT, f"probe: {name} is killed while the data servers do not reach {cut}")
        self._cluster.network.partition([cut], data)
        self._clients.ended(name)
        self._cluster.kill(name)
        bound = self._bounds[Death.KILLED] + UNREACHED_GRACES * self._time_to_return
        what = f"{name} has ended"
        try:
            await self._cluster.until(
                lambda: not any(self._registrations([name]).values()),
                what,
                bound * DRIFT + ALLOWANCE_SECONDS + self._travel,
                POLL_SECONDS,
            )
        except RequestTimeout:
            self._verdict.violate(
                "latency",
                f"{name} was killed while the data servers do not reach {cut}; its registrations are there after "
                f"{bound:.1f} s",
            )
        self._cluster.network.heal()
        self._clients.come(name)

    async def wave(self, rng: random.Random) -> bool:
        """Clients die one after the other, each too late to be looked at together with the one before: no data server
        may let more of them end than its brake allows. Then they are started again. Returns whether any died."""
        count, running = self._few + BEYOND_FEW, self._clients.running
        if not self._few or count > len(running):
            return False
        dying = rng.sample(running, count)
        self._trace.note(Weight.FAULT, f"probe: {', '.join(dying)} are killed one after the other")
        had = self._registrations(dying)
        for name in dying:
            self._clients.ended(name)
            self._cluster.kill(name)
            await asyncio.sleep(WAVE_SECONDS)
        await asyncio.sleep(self._held_seconds - WAVE_SECONDS * (count + 1))
        has = self._registrations(dying)
        for server in sorted({server for server, _ in had}):
            ended = [name for name in dying if had[server, name] > has[server, name]]
            if len(ended) > self._few:
                named = ", ".join(ended)
                what = f"{server} let {named} end within {self._held_seconds:g} s, and its brake allows {self._few}"
                self._verdict.violate("I14", what)
        for name in dying:
            self._clients.come(name)
        return True

    def _registrations(self, clients: Iterable[str]) -> dict[tuple[str, str], set[str]]:
        """The register ids that the leader of each slot has, by data server and client."""
        found: dict[tuple[str, str], set[str]] = {}
        for server, data in self._cluster.servers.items():
            if isinstance(data, DataServer):
                ids = [one.register_id for slot in data.core.slots.led() for one in slot.store.records()]
                found.update({(server, name): {i for i in ids if i.startswith(f"{name}/")} for name in clients})
        return found

    def _are_many_lost(self) -> bool:
        """Whether a storm has just cost so many clients their connections that another lost one has longer to return:
        it counts itself."""
        data = [server for server in self._cluster.servers.values() if isinstance(server, DataServer)]
        return any(server.core.endings.counters()["clients_lost"] >= FEW_CLIENTS for server in data)

    def _server_of(self, client: str) -> str | None:
        """The session server of a client; None where it is the only one."""
        sessions = [name for name, server in self._cluster.servers.items() if isinstance(server, SessionServer)]
        _, address = split_name(self._cluster.clients[client].server or "")
        return next((n for n in sessions if self._cluster.address(n) == address), None) if len(sessions) > 1 else None

    async def _converge(self, what: str, seconds: float) -> None:
        seconds += self._travel
        try:
            await self._cluster.until(lambda: self._clients.unconverged() is None, what, seconds, POLL_SECONDS)
        except RequestTimeout:
            problem = self._clients.unconverged()
            self._verdict.violate("latency", f"{what}; after {seconds:.2f} s {problem}")
