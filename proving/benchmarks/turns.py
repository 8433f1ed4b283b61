"""The longest turns of servers that hold one large service: ``python proving/benchmarks/turns.py --instances 300000``.

A cluster of four data and two session servers with clients runs in one process on the memory transport and virtual
time. For every packet and every action, the processor time of its process is measured. While a large service is
published, changed, pushed, and loses its leaders, nothing may hold a server's turn for long, because other services
wait meanwhile. The collector of cyclic garbage is off, because all processes share one here.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from slotreeve.clock import Timer
from slotreeve_client import Subscription
from slotreeve_conformance import virtual_time
from slotreeve_simulator.packet_kinds import first_tag, message_tags
from slotreeve_simulator.process_clock import ProcessClock
from slotreeve_simulator.simulated_cluster import SimulatedCluster

SERVICE = "com.example.Large"
SHOWN = 12
"""Kinds of turns that are shown for each step."""


class TurnTimer:
    """Stands in for the processor of one process, and measures each of its packets and actions."""

    def __init__(self, process: str, record: Callable[[str, str, float], None], names: Mapping[int, str]) -> None:
        self._process, self._record, self._names = process, record, names
        self._began = 0.0

    def busy_for(self) -> float:
        """It is always free. A packet is delivered now."""
        self._began = time.thread_time()
        return 0.0

    def handled(self, packet: bytes) -> None:
        """A packet was delivered."""
        name = self._names.get(first_tag(packet), "other")
        self._record(self._process, name, time.thread_time() - self._began)

    def run(self, action: Callable[[], None]) -> None:
        """Run an action of the process."""
        began = time.thread_time()
        action()
        name = name_of(action)
        if not name.startswith("MemoryLink._deliver"):
            self._record(self._process, name, time.thread_time() - began)


def name_of(action: Callable[[], None]) -> str:
    """The function that an action calls in the end."""
    inner: object = action
    while isinstance(inner, functools.partial):
        inner = inner.args[-1] if inner.args and callable(inner.args[-1]) else inner.func
    turn_end = getattr(inner, "__self__", None)
    inner = getattr(turn_end, "_action", inner)
    return str(getattr(inner, "__qualname__", inner))


class TurnClock(ProcessClock):
    """A clock that measures the actions of its process."""

    def __init__(self, turns: TurnTimer) -> None:
        super().__init__()
        self._turns = turns

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """As in the base class."""
        return super().call_later(seconds, lambda: self._turns.run(action))

    def call_soon(self, action: Callable[[], None]) -> None:
        """As in the base class."""
        super().call_soon(lambda: self._turns.run(action))


class TurnCluster(SimulatedCluster):
    """A cluster whose turns are measured. ``longest``: by role and name, the number, sum and longest in seconds."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, data=4)
        self.turns: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._tag_names = {tag: name for name, tag in message_tags().items()}
        self.network.delay_seconds = lambda _source, _target: 0.0005

    def process_clock(self, name: str, wall_skew_ms: int = 0) -> ProcessClock:
        """A clock that measures."""
        turns = self.network.processors[name] = TurnTimer(name, self._record, self._tag_names)
        clock = self._clocks[name] = TurnClock(turns)
        return clock

    def _record(self, process: str, what: str, seconds: float) -> None:
        self.turns[process.partition("-")[0], what].append(seconds)

    def report(self, step: str) -> None:
        """Show the longest turns since the last report."""
        print(f"\n{step}\n{'':10}{'what':45}{'turns':>9}{'sum, s':>9}{'longest, ms':>13}")
        rows = sorted(self.turns.items(), key=lambda row: -max(row[1]))
        for (role, what), seconds in rows[:SHOWN]:
            print(f"{role:10}{what:45}{len(seconds):9}{sum(seconds):9.2f}{1000 * max(seconds):13.1f}", flush=True)
        self.turns.clear()


async def measure(rng: random.Random, instances: int, subscribers: int) -> None:
    """The steps in the life of a large service."""
    cluster = TurnCluster(rng)
    async with cluster:
        provider = cluster.client(name="provider")
        publications = []
        for number in range(instances):
            publications.append(provider.publish(SERVICE, f"10.0.0.1:{number}"))
            if number % 1_000 == 0:
                await asyncio.sleep(0.001)
        await provider.flush()
        cluster.report("published")
        views = [cluster.client(name=f"watcher-{n}").subscribe(SERVICE) for n in range(subscribers)]
        await asyncio.gather(*(view.ready() for view in views))
        cluster.report("subscribed")
        for number in range(100):
            publications[number * instances // 100].republish(f"change {number}")
            await asyncio.sleep(0.1)
        cluster.report("changed, and compared")
        for death in (1, 2):
            leader = leader_of(cluster, publications[0].data_info_id)
            cluster.kill(leader)
            await asyncio.sleep(1.0)
            await cluster.ready(300.0)
            for number in range(20):
                publications[number * instances // 20].republish(f"death {death}, change {number}")
                await asyncio.sleep(0.1)
            assert all(len(view.instances) == instances for view in views)
            cluster.report(f"{leader}, its leader, was killed")
        await lose(cluster, ["provider"], views)
        again = cluster.client("session-1", name="provider-2")
        for number in range(instances):
            again.publish(SERVICE, f"10.0.0.2:{number}")
            if number % 1_000 == 0:
                await asyncio.sleep(0.001)
        await again.flush()
        await cluster.until(lambda: all(len(view.instances) == instances for view in views), "all are there", 300.0)
        cluster.report("published by another client")
        await lose(cluster, ["session-1", "provider-2"], views)


async def lose(cluster: TurnCluster, processes: list[str], views: list[Subscription]) -> None:
    """These processes, of which one has published the service, are killed. Its instances must leave every view."""
    for name in processes:
        cluster.kill(name)
    await cluster.until(lambda: not any(view.instances for view in views), "all have gone", 300.0)
    cluster.report(f"{' and '.join(processes)}: killed, the instances are gone")


def leader_of(cluster: SimulatedCluster, data_info_id: str) -> str:
    """The data server that leads the slot of a service."""
    for name in cluster.names:
        if name in cluster.servers and name.startswith("data"):
            for slot in cluster.data(name).core.slots.led():
                if data_info_id in slot.store.services:
                    return name
    raise AssertionError("nobody leads the service")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=300_000)
    parser.add_argument("--subscribers", type=int, default=2)
    given = parser.parse_args()
    gc.disable()

    async def measured(rng: random.Random) -> None:
        await measure(rng, given.instances, given.subscribers)

    virtual_time.run(measured, seed=1)
    print(f"{time.process_time():.0f} processor seconds in all", file=sys.stderr)


if __name__ == "__main__":
    main()
