"""What the product's handlers cost.

Example: ``python proving/benchmarks/handlers.py > proving/simulator/slotreeve_simulator/costs.json``

A cluster of three data and two session servers with clients runs in one process on the memory transport. For every
packet, the processor time of its delivery and of the actions that it causes in the same turn of the event loop is
measured. The figures are sorted by the kind of the packet's first message, and a line is fitted: microseconds a packet
and nanoseconds a byte. The simulator takes the result as the costs of its processors.

The sockets and threads of a real transport are not part of it: ``--transport`` microseconds are added to each packet.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from slotreeve.clock import Timer
from slotreeve_client import Client
from slotreeve_conformance import virtual_time
from slotreeve_simulator.packet_kinds import first_tag, message_tags
from slotreeve_simulator.process_clock import ProcessClock
from slotreeve_simulator.processor import OTHER, TIMER
from slotreeve_simulator.simulated_cluster import SimulatedCluster

FEWEST_SAMPLES = 20
"""A kind that occurred less often has the costs of the kinds without an entry."""
FEWEST_OF_A_SIZE = 5


class Sample:
    """One packet or timer: its kind, its bytes, and the seconds that it took until now."""

    def __init__(self, kind: str, size: int) -> None:
        self.kind, self.size, self.seconds = kind, size, 0.0


class Stopwatch:
    """Stands in for the processor of one process. The memory network asks :meth:`busy_for` just before it delivers a
    packet, and calls :meth:`handled` just after."""

    def __init__(self, samples: list[Sample], names: Mapping[int, str]) -> None:
        self._samples, self._names = samples, names
        self._began = 0.0
        self.current = Sample(OTHER, 0)

    def busy_for(self) -> float:
        """It is always free. A packet is delivered now."""
        self.current = Sample(OTHER, 0)
        self._began = time.perf_counter()
        return 0.0

    def handled(self, packet: bytes) -> None:
        """A packet was delivered."""
        self.current.kind = self._names.get(first_tag(packet), OTHER)
        self.current.size = len(packet)
        self.current.seconds += time.perf_counter() - self._began
        self._samples.append(self.current)

    def timer(self, action: Callable[[], None]) -> None:
        """Run the action of a timer, which may be to deliver packets: then only the packets count."""
        sample = self.current = Sample(TIMER, 0)
        self.run(sample, action)
        if self.current is sample:
            self._samples.append(sample)

    def run(self, sample: Sample, action: Callable[[], None]) -> None:
        """Run an action that ``sample`` caused."""
        began = time.perf_counter()
        action()
        sample.seconds += time.perf_counter() - began


class MeasuredClock(ProcessClock):
    """A clock that measures the actions of its process."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        super().__init__()
        self._stopwatch = stopwatch

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """As in the base class."""
        return super().call_later(seconds, lambda: self._stopwatch.timer(action))

    def call_soon(self, action: Callable[[], None]) -> None:
        """As in the base class; the packet or timer that runs now has caused it."""
        cause = self._stopwatch.current
        super().call_soon(lambda: self._stopwatch.run(cause, action))


class MeasuredCluster(SimulatedCluster):
    """A cluster in which each process has a stopwatch.

    Attributes:
        samples: everything that was measured.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.samples: list[Sample] = []
        self._tag_names = {tag: name for name, tag in message_tags().items()}
        self.network.delay_seconds = lambda _source, _target: 0.0005

    def process_clock(self, name: str, wall_skew_ms: int = 0) -> ProcessClock:
        """A clock that measures."""
        stopwatch = self.network.processors[name] = Stopwatch(self.samples, self._tag_names)
        clock = self._clocks[name] = MeasuredClock(stopwatch)
        return clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--registrations", type=int, default=4_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="virtual seconds of changes")
    parser.add_argument("--transport", type=float, default=25.0, help="microseconds a packet of a real transport")
    given = parser.parse_args()

    async def measured(rng: random.Random) -> list[Sample]:
        return await load(rng, given.registrations, given.seconds)

    samples = virtual_time.run(measured, seed=1)
    print(f"{len(samples)} packets and timers measured", file=sys.stderr)
    rows = sorted(figures(samples, given.transport).items())
    print("{\n" + ",\n".join(f" {json.dumps(kind)}: {json.dumps(figure)}" for kind, figure in rows) + "\n}")


async def load(rng: random.Random, registrations: int, seconds: float) -> list[Sample]:
    """Publishes, subscriptions, changes, pushes, reads, comparisons, a lost and a new data server."""
    cluster = MeasuredCluster(rng)
    async with cluster:
        clients = [cluster.client() for _ in range(8)]
        publications = [
            clients[i % len(clients)].publish(f"service-{rng.randrange(100)}", "x" * rng.choice((20, 100, 200, 1000)))
            for i in range(registrations)
        ]
        for number in range(400):
            clients[number % len(clients)].subscribe(f"service-{number % 100}", lambda _subscription: None)
        await asyncio.gather(*(client.flush() for client in clients))
        ends_at = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends_at:
            for _ in range(rng.choice((1, 1, 1, 10, 100))):
                rng.choice(publications).republish("y" * rng.choice((20, 200)))
            await clients[0].get(f"service-{rng.randrange(100)}")
            await asyncio.sleep(0.02)
        await replaced(cluster, clients)
        return cluster.samples


async def replaced(cluster: SimulatedCluster, clients: list[Client]) -> None:
    """A data server and a session server are lost and come again: records are fetched, compared, and sent again."""
    for name in ("data-1", "session-1"):
        cluster.kill(name)
        await asyncio.sleep(10.0)
        await cluster.start(name)
        await cluster.ready()
        await asyncio.gather(*(client.flush() for client in clients))


def figures(samples: list[Sample], transport: float) -> dict[str, tuple[float, float]]:
    """Microseconds a packet and nanoseconds a byte, by kind."""
    kinds: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        kinds[sample.kind].append(sample)
        if sample.kind != TIMER:
            kinds[OTHER].append(sample)
    return {
        kind: line(of_kind, 0.0 if kind == TIMER else transport)
        for kind, of_kind in kinds.items()
        if len(of_kind) >= FEWEST_SAMPLES
    }


def line(samples: list[Sample], transport: float) -> tuple[float, float]:
    """The line through the medians of packets of similar size; without a slope where size does not explain the time."""
    sizes: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        sizes[sample.size.bit_length()].append(sample)
    points = [
        (statistics.mean(s.size for s in some), statistics.median(s.seconds for s in some))
        for some in sizes.values()
        if len(some) >= FEWEST_OF_A_SIZE
    ]
    base, slope = statistics.median(sample.seconds for sample in samples), 0.0
    if len(points) > 1:
        fitted = statistics.linear_regression(*zip(*points, strict=True)).slope
        rest = statistics.median(sample.seconds - fitted * sample.size for sample in samples)
        if fitted > 0 and rest > 0:
            base, slope = rest, fitted
    return round(base * 1e6 + transport, 1), round(slope * 1e9, 1)


if __name__ == "__main__":
    main()
