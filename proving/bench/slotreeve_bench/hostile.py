"""What hostile connections without a key cost a cluster with keys: rounds without them, rounds in which they attack
another process on the same machine, and rounds in which they attack the cluster, in turn.

The hostile ones take processors of the machine themselves, which they would not from elsewhere. They do so in the
second kind of rounds as well, so what the third kind costs more than that is the servers' own.

``python -m slotreeve_bench.hostile`` is the process of the hostile ones, or that of the decoy.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from slotreeve.clock import MachineClock
from slotreeve.errors import ClientError, TransportError
from slotreeve.key_files import load_keys
from slotreeve.keys import KeyRing, Principal, TrustedKeys, split_name
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve_client import Publication, Subscription
from slotreeve_client.administration import cluster_view, counters
from slotreeve_client.tools import new_key_pair, open_client, open_transport, run_async
from slotreeve_harness.figures import percentile, spread_of
from slotreeve_harness.free_ports import free_ports
from slotreeve_harness.processes import LocalCluster
from slotreeve_transport_zmq.transport import ZmqTransport

from slotreeve_bench.workers import Commands, Worker

PAUSE_SECONDS = 0.2
"""A hostile connection that was ended comes back after this time; 200 of them are a thousand attempts a second."""
ATTEMPT_SECONDS = 2.0
GREETING_HEAD = bytes([0xFF, *([0] * 8), 0x7F, 3, 1])
"""How a peer that speaks ZMTP 3.1 begins (ZeroMQ's RFC 37)."""
SERVICES = 200
SETTLE_SECONDS = 0.5
"""From a burst to the next delays: followers and subscribers have everything by then."""
DECOY = "decoy"
READY_SECONDS = 60.0


@dataclass(frozen=True)
class HostilePlan:
    """How large the measurement is.

    Attributes:
        connections: hostile ones, of all kinds alike.
        rounds: of each kind.
        seconds: length of a round.
        rate: changes a second, of which the delays are measured.
        burst: registrations that are published again at once, of which the rate is measured.
        bursts: how many in each round, one after the other.
    """

    connections: int = 200
    rounds: int = 24
    seconds: float = 4.0
    rate: float = 200.0
    burst: int = 20_000
    bursts: int = 3


# --- the hostile ones ------------------------------------------------------------------------------------------------


class Hostile:
    """Connections that do harm, each in its own way, to servers in turn. They come back for ever.

    Attributes:
        attempts: how often each kind has connected. ``let_in``: how often a server has let one in; it must not.
    """

    def __init__(self, addresses: list[str], rng: random.Random, strangers: KeyRing) -> None:
        self._addresses, self._rng = addresses, rng
        self._transports = {
            "stranger": ZmqTransport(MachineClock(), keys=strangers),
            "without a key": ZmqTransport(MachineClock()),
        }
        self.attempts: Counter[str] = Counter()
        self.let_in = 0
        self.kinds: dict[str, Callable[[str], Awaitable[None]]] = {
            "garbage": self._garbage,
            "half open": self._half_open,
            "slow": self._slow,
            "oversized": self._oversized,
            "forged handshake": self._forged,
            "stranger": lambda address: self._hello("stranger", address),
            "without a key": lambda address: self._hello("without a key", address),
        }

    async def run(self, connections: int) -> None:
        """So many connections, until cancelled."""
        kinds = list(self.kinds)
        async with asyncio.TaskGroup() as group:
            for number in range(connections):
                group.create_task(self._keep(kinds[number % len(kinds)], number))

    async def close(self) -> None:
        """Close what is open."""
        for transport in self._transports.values():
            await transport.close()

    async def _keep(self, kind: str, number: int) -> None:
        await asyncio.sleep(PAUSE_SECONDS * self._rng.random())
        while True:
            self.attempts[kind] += 1
            with contextlib.suppress(OSError, TransportError, TimeoutError):
                await self.kinds[kind](self._addresses[number % len(self._addresses)])
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send(self, address: str, parts: list[bytes], pause_seconds: float, stay_seconds: float) -> None:
        """Send these over a TCP connection, and leave when the peer does or the time is over."""
        host, _, port = split_name(address)[1].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            for part in parts:
                if writer.is_closing():
                    break
                writer.write(part)
                await asyncio.sleep(pause_seconds)
            async with asyncio.timeout(stay_seconds):
                while await reader.read(65_536):
                    pass
        finally:
            writer.transport.abort()

    async def _garbage(self, address: str) -> None:
        await self._send(address, [self._rng.randbytes(4_096) for _ in range(4)], 0.05, 1.0)

    async def _half_open(self, address: str) -> None:
        await self._send(address, [], 0.0, 30.0)

    async def _slow(self, address: str) -> None:
        await self._send(address, [bytes([byte]) for byte in self._greeting(b"CURVE")], 0.1, 1.0)

    async def _oversized(self, address: str) -> None:
        """A command that says that it is 2^62 bytes long."""
        head = bytes([0x06]) + (1 << 62).to_bytes(8, "big")
        await self._send(address, [self._greeting(b"CURVE"), head, *[self._rng.randbytes(65_536)] * 4], 0.05, 1.0)

    async def _forged(self, address: str) -> None:
        """CURVE's first command with boxes that nobody has locked: the server computes, and refuses."""
        hello = b"\x05HELLO" + bytes([1, 0]) + bytes(72) + self._rng.randbytes(32 + 8 + 80)
        command = bytes([0x04, len(hello)]) + hello
        await self._send(address, [self._greeting(b"CURVE"), command], 0.01, 1.0)

    async def _hello(self, kind: str, address: str) -> None:
        name = f"hostile-{self._rng.getrandbits(32):x}"
        hello = Hello("local", name, Role.TOOL, name)
        connection = await self._transports[kind].connect(address, hello, _Ignoring(), ATTEMPT_SECONDS)
        self.let_in += 1
        connection.close("it was let in")

    @staticmethod
    def _greeting(mechanism: bytes) -> bytes:
        return GREETING_HEAD + mechanism.ljust(20, b"\0") + bytes(32)


class _Ignoring:
    """The handler of connections that should not open."""

    def opened(self, connection: Connection) -> None:
        """Nothing to do."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Nothing to do."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Nothing to do."""


async def _attack(connections: int, own_key: str, decoy_key: str, addresses: list[str]) -> None:
    """The process of the hostile ones: ``cluster`` and ``decoy`` begin an attack on that, and ``end`` ends it."""
    os.nice(19)  # on other machines they would take none of the processors of the servers
    known, commands = load_keys(own_key), Commands()
    assert known is not None
    keys = defaultdict[Role, dict[str, list[str]]](dict)
    for principal in (*known.trusted.all(), Principal(DECOY, Role.META, decoy_key)):
        keys[principal.role].setdefault(principal.name, []).append(principal.key)
    strangers = KeyRing(new_key_pair(), TrustedKeys(keys))  # they know whom to expect, and nobody knows them
    at_decoy = [address for address in addresses if split_name(address)[0] == DECOY]
    places = {"decoy": at_decoy, "cluster": [address for address in addresses if address not in at_decoy]}
    attacks = {name: Hostile(theirs, random.Random(), strangers) for name, theirs in places.items()}
    hostile, running = attacks["cluster"], None
    commands.answer("ready")
    while command := await commands.next():
        if command in attacks:
            hostile = attacks[command]
            running = asyncio.create_task(hostile.run(connections))
        elif running is not None:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
        used = {"processor_seconds": time.process_time(), "at": time.monotonic()}
        commands.answer({"attempts": dict(hostile.attempts), "let_in": hostile.let_in, **used})
    for each in attacks.values():
        await each.close()


async def _decoy(addresses: list[str]) -> None:
    """The process that is attacked instead of the cluster: it listens as the servers do, and knows nobody."""
    os.nice(19)
    pair, commands = new_key_pair(), Commands()
    transport = ZmqTransport(MachineClock(), keys=KeyRing(pair, TrustedKeys({}), name=DECOY))
    for address in addresses:
        await transport.listen(address, Hello("local", DECOY, Role.META, DECOY), _Ignoring())
    commands.answer(pair.public)
    while await commands.next():
        pass
    await transport.close()


# --- the measurement -------------------------------------------------------------------------------------------------


async def measure_hostile(cluster: LocalCluster, plan: HostilePlan, report: Callable[[str], None]) -> dict[str, object]:
    """Changes at a fixed rate, then bursts, in each round. Figures of the three kinds of rounds are medians over the
    rounds: of the percentiles of the delays, and of the rate of bursts. ``ratios`` has what the cluster pays, beside
    the hostile ones to beside those that attack the decoy: the mean over the middle half of the pairs of neighbouring
    rounds, so that some rounds on a slow machine decide nothing; ``ratios_quartiles`` says how far apart the pairs are.
    ``ratios_to_quiet`` has what the machine pays as well. The hostile ones and the decoy have the lowest priority.

    Raises:
        ClientError: the cluster has no keys, or a hostile connection was let in or has changed the members.
        RequestTimeout: something did not happen in time.
    """
    if not cluster.has_keys:
        raise ClientError("the servers have no keys: everybody may come in; expected --keys")
    addresses = [server.dialled for server in cluster.servers.values() if server.role is not Role.GATEWAY]
    transport = open_transport(cluster.transport)
    at_decoy = [f"127.0.0.1:{port}" for port in free_ports(len(addresses), random.Random())]
    workers = [await Worker.start(cluster, "slotreeve_bench.hostile", "decoy", *at_decoy)]
    try:
        decoy_key = await workers[0].answer(READY_SECONDS)
        hostile = (str(plan.connections), cluster.operator_key, decoy_key)
        places = [*addresses, *(f"{DECOY}@{address}" for address in at_decoy)]
        worker = await Worker.start(cluster, "slotreeve_bench.hostile", *hostile, *places)
        workers.append(worker)
        await worker.answer(READY_SECONDS)
        before = await cluster_view(transport, cluster.name, cluster.meta_addresses.values())
        rounds: dict[str, list[_Round]] = {"quiet": [], "decoy": [], "cluster": []}
        attacks: dict[str, Any] = {}
        busy_seconds, seconds = Counter[str](), Counter[str]()
        async with _Measured(cluster, plan) as measured:
            await measured.round()  # the first one is slower
            for number in range(plan.rounds):
                report(f"round {number + 1} of {plan.rounds}")
                rounds["quiet"].append(await measured.round())
                for attacked in ("decoy", "cluster") if number % 2 else ("cluster", "decoy"):
                    began = await worker.ask(attacked, READY_SECONDS)
                    rounds[attacked].append(await measured.round())
                    ended = attacks[attacked] = await worker.ask("end", READY_SECONDS)
                    busy_seconds[attacked] += ended["processor_seconds"] - began["processor_seconds"]
                    seconds[attacked] += ended["at"] - began["at"]
        after = await cluster_view(transport, cluster.name, cluster.meta_addresses.values())
        if any(attack["let_in"] for attack in attacks.values()) or after.table != before.table:
            raise ClientError(f"hostile connections were let in, or have changed something: {attacks}")
        refused = [(await counters(transport, cluster.name, address))["refused_keys"] for address in addresses]
    finally:
        for each in workers:
            await each.stop()
        await transport.close()
    quiet, at_decoys, beside = rounds.values()
    return {
        "connections": plan.connections,
        "attempts": attacks["cluster"]["attempts"],
        "attempts_at_the_decoy": sum(attacks["decoy"]["attempts"].values()),
        "let_in": attacks["cluster"]["let_in"],
        "processors_of_the_hostile": {name: round(busy_seconds[name] / seconds[name], 2) for name in attacks},
        "refused_keys": sum(refused),
        "quiet": _figures(quiet),
        "decoy": _figures(at_decoys),
        "beside": _figures(beside),
        "ratios": _each(_midmean, at_decoys, beside),
        "ratios_quartiles": {
            "first": _each(partial(percentile, share=0.25), at_decoys, beside),
            "third": _each(partial(percentile, share=0.75), at_decoys, beside),
        },
        "ratios_to_quiet": _each(_midmean, quiet, beside),
    }


@dataclass(frozen=True)
class _Round:
    p50_ms: float
    p99_ms: float
    publishes_per_second: float


def _figures(rounds: list[_Round]) -> dict[str, float]:
    return {
        field.name: round(statistics.median(getattr(each, field.name) for each in rounds), 3)
        for field in fields(_Round)
    }


def _each(summary: Callable[[list[float]], float], without: list[_Round], beside: list[_Round]) -> dict[str, float]:
    """For each figure, a summary of its ratios in the pairs of rounds."""
    pairs = list(zip(without, beside, strict=True))
    return {
        field.name: round(summary([getattr(b, field.name) / getattr(a, field.name) for a, b in pairs]), 3)
        for field in fields(_Round)
    }


def _midmean(ratios: list[float]) -> float:
    """The mean of the middle half, which differs less from run to run than the median."""
    outside = len(ratios) // 4
    return statistics.mean(sorted(ratios)[outside : len(ratios) - outside])


class _Measured:
    """A publisher and a subscriber, and what is measured of them in a round."""

    def __init__(self, cluster: LocalCluster, plan: HostilePlan) -> None:
        self._plan = plan
        first, *others = cluster.session_addresses
        self._publisher = open_client([first], cluster.name)
        self._subscriber = open_client(others[:1] or [first], cluster.name)
        self._delays_ms: list[float] = []
        self._publications: list[Publication] = []

    async def __aenter__(self) -> _Measured:
        def changed(subscription: Subscription) -> None:
            now = time.monotonic()
            self._delays_ms.extend((now - float(one.data[0])) * 1e3 for one in subscription.instances)

        names = [f"bench.hostile.{number}" for number in range(self._plan.burst)]
        self._publications = [self._publisher.publish(name, str(time.monotonic())) for name in names]
        await self._publisher.flush()
        subscriptions = [self._subscriber.subscribe(name, changed) for name in names[:SERVICES]]
        await asyncio.gather(*(subscription.ready() for subscription in subscriptions))
        gc.collect()
        gc.freeze()  # else the collector's looks at so many publications are in the delays
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._publisher.close()
        await self._subscriber.close()

    async def round(self) -> _Round:
        """Delays at a fixed rate in milliseconds, then how many records a second are acknowledged."""
        loop, plan = asyncio.get_running_loop(), self._plan
        await asyncio.sleep(SETTLE_SECONDS)
        self._delays_ms.clear()
        began = loop.time()
        for number in range(int(plan.seconds * plan.rate)):
            await asyncio.sleep(max(0.0, began + number / plan.rate - loop.time()))
            self._publications[number % SERVICES].republish(str(time.monotonic()))
        await self._publisher.flush()
        await asyncio.sleep(SETTLE_SECONDS)
        delays = spread_of(self._delays_ms)
        began = loop.time()
        for number in range(plan.bursts):
            for publication in self._publications[SERVICES:]:
                publication.republish(f"burst {number}")
            await self._publisher.flush()
        rate = plan.bursts * (plan.burst - SERVICES) / (loop.time() - began)
        return _Round(delays["p50"], delays["p99"], round(rate))


if __name__ == "__main__":
    if sys.argv[2] == "decoy":
        run_async(_decoy(sys.argv[3:]))
    else:
        run_async(_attack(int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]))
