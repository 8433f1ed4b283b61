"""The simulated cluster of a scenario: every process has its own random numbers and its own wrong clocks."""

from __future__ import annotations

import asyncio
import random

from slotreeve.keys import KeyRing
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_servers.any_server import Server

from slotreeve_simulator.process_clock import ProcessClock
from slotreeve_simulator.processor import SimulatedProcessor, load_costs
from slotreeve_simulator.scenario import Scenario
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_keys import SimulatedTrust
from slotreeve_simulator.store import ELECTION, LockStore

SLOW_FACTOR = 100.0


class ScenarioCluster(SimulatedCluster):
    """Random numbers are drawn by process and by link, so leaving out a fault changes nothing in other processes.

    Attributes:
        lives: number of starts of each process.
        slowness: factor by which packets to and from a process take longer; 1 if the process is missing here. Between
            two slow processes the larger factor counts.
        detours: by how many seconds packets from one process to another one take longer.
        processors: the processor of each process since its last start.
        store: the database of a lock election; None if the election needs none.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        nodes = scenario.nodes
        is_lock = nodes.election == "lock"
        settings = {"election.use": ELECTION, **nodes.settings} if is_lock else nodes.settings
        limits = ChannelLimits(queue_bytes=scenario.network.queue_bytes)
        super().__init__(random.Random(f"{seed}/cluster"), nodes.meta, nodes.data, nodes.session, settings, limits)
        self._trust = SimulatedTrust()
        self.network.bytes_per_second = scenario.network.bytes_per_second
        self.network.under_way_packets = scenario.network.under_way_packets
        self._scenario, self._seed = scenario, seed
        self.lives: dict[str, int] = {}
        self.slowness: dict[str, float] = {}
        self.detours: dict[tuple[str, str], float] = {}
        self.processors: dict[str, SimulatedProcessor] = {}
        self._delays: dict[tuple[str, str], random.Random] = {}
        self._skews: dict[str, int] = {}
        self.network.delay_seconds = self._delay
        clocks = random.Random(f"{seed}/clocks")
        for name in [*self._addresses, *(f"client-{number + 1}" for number in range(nodes.clients))]:
            self.drifts[name] = clocks.uniform(-scenario.clocks.drift, scenario.clocks.drift)
            self.set_wall_clock(name, clocks.random())
        self._costs = load_costs()
        self.sync_seconds = scenario.disks.sync_ms / 1000
        self.store: LockStore | None = None
        if is_lock:
            drift = clocks.uniform(-scenario.clocks.drift, scenario.clocks.drift)
            chance = random.Random(f"{seed}/store")
            self.store = LockStore(ProcessClock(drift=drift), chance, scenario.network.delay_ms)
            self.store.offer(self.catalogue)

    def set_wall_clock(self, name: str, amount: float) -> None:
        """Set the wall clock of ``name`` wrong from its next start on: ``amount`` 0 to 1 means slow to fast."""
        limit = self._scenario.clocks.wall_skew_ms
        self._skews[name] = round((2 * amount - 1) * limit)

    def _delay(self, source: str, target: str) -> float:
        link = (source, target)
        rng = self._delays.get(link)
        if rng is None:
            rng = self._delays[link] = random.Random(f"{self._seed}/delay/{source}/{target}")
        shortest, longest = self._scenario.network.delay_ms
        travel = (shortest + (longest - shortest) * rng.random()) * self._factor(source, target) / 1000
        return travel + self.detours.get(link, 0.0) if self.detours else travel

    def _factor(self, one: str, other: str) -> float:
        slowness = self.slowness
        return max(slowness.get(one, 1.0), slowness.get(other, 1.0)) if slowness else 1.0

    def longest_travel(self) -> float:
        """For how many seconds a packet that is sent now may be under way, whoever sends it."""
        slowest = self._scenario.network.delay_ms[1] * max(self.slowness.values(), default=1.0) / 1000
        return slowest + max(self.detours.values(), default=0.0)

    async def start(self, name: str, wall_skew_ms: int = 0, **settings: object) -> Server:
        """As in the base class, with the wall clock that is set for the process."""
        return await super().start(name, wall_skew_ms or self._skews.get(name, 0), **settings)

    def kill(self, name: str, power_lost: bool = False) -> None:
        """As in the base class; also end the connections of the process to the store."""
        super().kill(name, power_lost)
        if self.store is not None:
            self.store.database.hang_up(name)

    def keys(self, name: str) -> KeyRing | None:
        """Every process of a scenario has a key."""
        return self._trust.keys_of(name)

    def process_clock(self, name: str, wall_skew_ms: int = 0) -> ProcessClock:
        """As in the base class; count the start."""
        self.lives[name] = self.lives.get(name, 0) + 1
        return super().process_clock(name, wall_skew_ms)

    def processor(self, name: str) -> SimulatedProcessor | None:
        """A processor for each process, slower by the scenario's factor."""
        processor = SimulatedProcessor(asyncio.get_running_loop().time, self._costs)
        processor.slowness = self._scenario.processors.slowness
        self.network.processors[name] = self.processors[name] = processor
        return processor

    def turn_ends(self, name: str) -> random.Random | None:
        """Turns of different length, for each start of each server."""
        if name.startswith("client-"):
            return None
        return random.Random(f"{self._seed}/turns/{name}/{self.lives[name]}")

    def chance(self, name: str) -> random.Random:
        """A source of random numbers for each start of each process."""
        return random.Random(f"{self._seed}/process/{name}/{self.lives[name]}")
