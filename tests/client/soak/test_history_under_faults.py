"""What the histories of a cluster tell as exact was so, whatever died, froze or was cut off meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

from slotreeve.errors import SlotreeveError
from slotreeve.model.data_info import DataInfo
from slotreeve_client import Client
from slotreeve_client.history import service_at
from slotreeve_conformance import virtual_time
from slotreeve_conformance.simulated import seeds
from slotreeve_protocol.history_messages import KnownState
from slotreeve_servers.data.server import DataServer
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

SERVICE = DataInfo.parse("com.example.Greeter").id
DATA = ("data-1", "data-2", "data-3")
SECONDS = 40
SETTLED_SECONDS = 2.0
"""A moment counts where nothing has changed for so long before and after it."""
Contents = dict[str, tuple[bytes, ...]]


class Truth:
    """Looks into the leader of the slot again and again. ``out``: servers that are dead, frozen or cut off."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.out: set[str] = set()
        self.seen: list[tuple[int, Contents | None]] = []

    def look(self, at_ms: int) -> None:
        self.seen.append((at_ms, self._contents()))

    def _contents(self) -> Contents | None:
        """What the one server has that leads the slot and serves; None where there is not exactly one."""
        found: list[Contents] = []
        for name in DATA:
            server = self._cluster.servers.get(name)
            if not isinstance(server, DataServer) or name in self.out:
                continue
            for slot in server.core.slots.led():
                if slot.serving and SERVICE in slot.store.services:
                    records = slot.store.services[SERVICE]
                    found.append({register_id: record.data or () for register_id, record in records.items()})
        return found[0] if len(found) == 1 else None

    def settled(self) -> list[tuple[int, Contents]]:
        """The moments around which nothing changed."""
        reach = int(1000 * SETTLED_SECONDS)
        return [
            (at_ms, contents)
            for at_ms, contents in self.seen
            if contents is not None and all(other == contents for at, other in self.seen if abs(at - at_ms) <= reach)
        ]


async def strike(cluster: SimulatedCluster, rng: random.Random, clients: list[Client], out: set[str]) -> None:
    """Something happens to the service or to a server."""
    what = rng.choice(("publish", "publish", "leave", "kill", "freeze", "cut"))
    victim = rng.choice(DATA)
    if what in ("kill", "freeze", "cut"):
        out.add(victim)
    if what == "publish":
        client = cluster.client(f"session-{rng.randint(1, 2)}")
        client.publish(SERVICE, f"{len(clients)}")
        clients.append(client)
    elif what == "leave" and clients:
        await clients.pop(rng.randrange(len(clients))).close()
    elif what == "kill":
        cluster.kill(victim)
        await asyncio.sleep(rng.uniform(0.1, 6))
        await cluster.start(victim)
    elif what == "freeze":
        cluster.freeze(victim)
        await asyncio.sleep(rng.uniform(0.1, 8))
        cluster.thaw(victim)
    elif what == "cut":
        cluster.network.partition([victim], [name for name in cluster.servers if name != victim])
        await asyncio.sleep(rng.uniform(0.1, 8))
        cluster.network.heal()
    out.discard(victim)


def test_nothing_is_told_as_exact_that_was_not_so(tmp_path: Path) -> None:
    compared = {seed: moments_compared(tmp_path / str(seed), seed) for seed in seeds(8)}
    assert sum(compared.values()) > 5 * len(compared), compared


def moments_compared(directory: Path, seed: int) -> int:
    """How many moments of a run were told as exact, and were so."""

    async def scenario(rng: random.Random) -> int:
        settings = {"history.directory": str(directory)}
        async with SimulatedCluster(rng, meta=3, data=3, session=2, settings=settings) as cluster:
            clock, truth, clients = virtual_time.VirtualClock(), Truth(cluster), list[Client]()
            first = cluster.client("session-1")
            first.publish(SERVICE, "first")
            await first.flush()

            async def watch() -> None:
                while True:
                    truth.look(clock.wall_ms())
                    await asyncio.sleep(0.2)

            watching = asyncio.create_task(watch())
            end = clock.now() + SECONDS
            while clock.now() < end:
                with contextlib.suppress(SlotreeveError):
                    await strike(cluster, rng, clients, truth.out)
                await asyncio.sleep(rng.uniform(0.2, 5))
            await asyncio.sleep(30)
            watching.cancel()
            transport = MemoryTransport(clock, "tool", cluster.network)
            metas = [cluster.address(name) for name in ("meta-1", "meta-2", "meta-3")]
            checked = 0
            for at_ms, contents in truth.settled():
                past = await service_at(transport, "slotreeve", metas, SERVICE, at_ms)
                if past.known is KnownState.EXACTLY:
                    checked += 1
                    told = {name: record.data or () for name, record in past.records.items()}
                    where = f"seed {seed}: at {at_ms} by {past.server} (since {past.since_ms})"
                    assert told == contents, where
            return checked

    return virtual_time.run(scenario, seed=seed)
