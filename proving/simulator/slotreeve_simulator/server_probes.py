"""Data servers of a calm cluster end together: what that may cost, and for how long."""

from __future__ import annotations

import asyncio
import random

from slotreeve.errors import RequestTimeout
from slotreeve_protocol.meta_messages import Stopping
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.meta.server import MetaServer

from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.configs_watch import ConfigsWatch
from slotreeve_simulator.probes import ALLOWANCE_SECONDS, DRIFT, HOPS, POLL_SECONDS
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict

AWAY_SECONDS = 3.0
"""Between the end of servers and their next start."""


class ServerProbes:
    """Probes of one run. Each begins with a calm cluster, and starts again what it ended."""

    def __init__(
        self,
        cluster: ScenarioCluster,
        watch: ServersWatch,
        configs: ConfigsWatch,
        longest_delay: float,
        trace: Trace,
        verdict: RunVerdict,
    ) -> None:
        self._cluster, self._watch, self._configs = cluster, watch, configs
        self._trace, self._verdict = trace, verdict
        self._copies: dict[str, dict[str, bytes]] = {}
        settings = cluster.settings
        self._bound = settings.meta.lost_connection_seconds * DRIFT + ALLOWANCE_SECONDS + HOPS * longest_delay
        self._replicas, self._protected = settings.cluster.replicas, settings.meta.protect_below

    async def end_together(self, rng: random.Random) -> None:
        """Data servers are killed, or stop in order, at one moment."""
        await rng.choice((self.holders_die, self.two_stop))(rng)

    async def holders_die(self, rng: random.Random) -> None:
        """All holders of a slot but one are killed. Each slot must be served within the stated bound (I15): what has a
        copy left by that one, what has none by whoever takes it, from the session servers."""
        row = rng.choice(self._cluster.views()[0].table.slots)
        dying = rng.sample(row.in_sync, max(0, len(row.in_sync) - 1))
        if not dying or len(self._data()) - len(dying) < max(1, self._protected):
            return
        self._trace.note(Weight.FAULT, f"probe: {', '.join(dying)} are killed, of the holders of slot {row.id}")
        for name in dying:
            self._watch.forget(name)
            self._cluster.kill(name)
        what = "each slot is served"
        try:
            await self._cluster.until(lambda: not self._unserved(), what, self._bound, POLL_SECONDS)
        except RequestTimeout:
            unserved = ", ".join(map(str, self._unserved()))
            self._verdict.violate("I15", f"{self._bound:.2f} s after {', '.join(dying)} died nobody serves {unserved}")
        await asyncio.sleep(AWAY_SECONDS)
        for name in dying:
            await self._cluster.start(name)

    async def two_stop(self, rng: random.Random) -> None:
        """Two data servers stop at one moment, for good or for a restart; without further copies for good, because what
        restarts takes the only one with it. Nothing may be missing meanwhile (I12), which the watches look at, and each
        slot must be handed over to a server in sync, leases with it (I20)."""
        if len(self._data()) < 3 or len(self._data()) - 2 < self._protected:
            return
        stopping = rng.sample(self._data(), 2)
        possible = [Stopping.FOR_GOOD, Stopping.FOR_A_RESTART] if self._replicas > 1 else [Stopping.FOR_GOOD]
        hows = [rng.choice(possible) for _ in stopping]
        self._trace.note(Weight.FAULT, f"probe: {' and '.join(stopping)} stop")
        before = self._watch.newest
        for name in stopping:
            self._watch.leaving.add(name)
        await asyncio.gather(*(self._stop(name, how) for name, how in zip(stopping, hows, strict=True)))
        for revision, view in self._watch.views.items():
            if revision > before and view.unclean:
                slots = ", ".join(map(str, view.unclean))
                self._verdict.violate("I20", f"{' and '.join(stopping)} stopped in order; nobody in sync has {slots}")

    def back_up(self) -> None:
        """Keep a copy of the disks of all meta servers as they are now."""
        disks = {name: disk for name in self._meta() if (disk := self._cluster.disk(name)) is not None}
        self._copies = {name: dict(disk.files) for name, disk in disks.items()}

    async def state_is_lost(self, rng: random.Random) -> None:
        """The disks of all meta servers are lost, and these start with empty ones, or with the copies. The members keep
        all that they have, leases too, and views go on above the newest one."""
        names, is_copied = self._meta(), bool(self._copies) and rng.random() < 0.5
        instead = "set back to copies" if is_copied else "lost"
        self._trace.note(Weight.FAULT, f"probe: the disks of all meta servers are {instead}")
        for name in names:
            self._cluster.kill(name)
            disk = self._cluster.disk(name)
            if is_copied and disk is not None:
                disk.files = dict(self._copies[name])
            else:
                self._cluster.wipe(name)
        self._watch.state_lost()
        self._configs.counted_anew()
        for name in names:
            await self._cluster.start(name)

    async def _stop(self, name: str, how: Stopping) -> None:
        """Stop it, and start it again as its supervisor does: of two that restart, the second one waits for that."""
        await self._cluster.stop(name, how)
        self._watch.forget(name)
        await asyncio.sleep(AWAY_SECONDS)
        await self._cluster.start(name)

    def _meta(self) -> list[str]:
        return [name for name, server in self._cluster.servers.items() if isinstance(server, MetaServer)]

    def _data(self) -> list[str]:
        return [name for name, server in self._cluster.servers.items() if isinstance(server, DataServer)]

    def _unserved(self) -> list[int]:
        served = {
            slot.slot.id
            for server in self._cluster.servers.values()
            if isinstance(server, DataServer) and server.core.membership.has_lease
            for slot in server.core.slots.led()
            if slot.serving
        }
        return [number for number in range(self._cluster.settings.cluster.slots) if number not in served]
