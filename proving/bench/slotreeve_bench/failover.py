"""How long clients and operators feel the death of a process: SIGKILL, again and again."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import time
from collections.abc import Callable

from slotreeve.errors import ClientError, TransportError
from slotreeve.model.data_info import DataInfo
from slotreeve.model.nodes import Role
from slotreeve.ports import Transport
from slotreeve_client import Client, Publication, Subscription
from slotreeve_client.administration import cluster_leader, cluster_view
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster

POLL_SECONDS = 0.002
GENEROUS_SECONDS = 30.0
PROVIDER = "from slotreeve_bench.failover import provide; provide()"


async def measure_failover(cluster: LocalCluster, kills: int = 10, services: int = 500) -> dict[str, object]:
    """Kill the meta leader, a data server, the session server of a provider, and a provider, ``kills`` times each.

    Raises:
        TimeoutError: something did not come back within half a minute.
    """
    transport = open_transport(cluster.transport)
    names = [f"bench.failover.{number}" for number in range(services)]
    rng = random.Random(services)
    try:
        async with (
            open_client(cluster.session_addresses, cluster.name) as provider,
            open_client(cluster.session_addresses, cluster.name) as consumer,
        ):
            watch = _FailoverWatch(consumer, names)
            publications = [provider.publish(name, "0") for name in names]
            await provider.flush()
            await watch.until(lambda: watch.fewest == 1)
            meta = [await _kill_meta_leader(cluster, transport) for _ in range(kills)]
            data = [await _kill_data_server(cluster, transport, consumer, names, rng) for _ in range(kills)]
            watch.begin()
            session = [await _kill_session_server(cluster, transport, provider, publications) for _ in range(kills)]
            fewest = watch.fewest_ever
            client = [await _kill_client(cluster, consumer) for _ in range(kills)]
    finally:
        await transport.close()
    return {
        "kills": kills,
        "services": services,
        "meta_leader_ms": spread_of(meta),
        "data_server_ms": spread_of(data),
        "session_server_ms": spread_of(session),
        "vanished_meanwhile": int(fewest < 1),
        "client_ms": spread_of(client),
    }


class _FailoverWatch:
    """A subscriber to all services: the fewest providers seen of any, now and ever."""

    def __init__(self, client: Client, names: list[str]) -> None:
        self._counts: dict[str, int] = {}
        self.fewest_ever = 0
        self._subscriptions = [client.subscribe(name, self._changed) for name in names]

    def _changed(self, subscription: Subscription) -> None:
        count = len(subscription.instances)
        self._counts[subscription.data_info_id] = count
        self.fewest_ever = min(self.fewest_ever, count)

    @property
    def fewest(self) -> int:
        return min(self._counts.values()) if len(self._counts) == len(self._subscriptions) else 0

    def begin(self) -> None:
        self.fewest_ever = self.fewest

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(GENEROUS_SECONDS):
            while not condition():  # noqa: ASYNC110 - a condition of many callbacks
                await asyncio.sleep(POLL_SECONDS)


async def _kill_meta_leader(cluster: LocalCluster, transport: Transport) -> float:
    """Milliseconds until another meta server leads; the killed one is started again."""
    known = await cluster_leader(transport, cluster.name, cluster.meta_addresses.values())
    if known.leader is None:
        raise ClientError("no meta server leads although the cluster is ready")
    others = [address for name, address in cluster.meta_addresses.items() if name != known.leader]
    began = time.monotonic()
    cluster.servers[known.leader].kill()
    async with asyncio.timeout(GENEROUS_SECONDS):
        while True:
            try:
                now = await cluster_leader(transport, cluster.name, others)
            except TransportError:
                continue
            if now.term > known.term and now.leader is not None:
                break
            await asyncio.sleep(POLL_SECONDS)
    took = 1000 * (time.monotonic() - began)
    cluster.servers[known.leader].start()
    await asyncio.sleep(2.0)
    await cluster.ready(transport)
    return took


async def _kill_data_server(
    cluster: LocalCluster, transport: Transport, consumer: Client, names: list[str], rng: random.Random
) -> float:
    """Milliseconds until each slot that it led answers a lookup again; it is started again."""
    victim = rng.choice(cluster.of(Role.DATA))
    view = await cluster_view(transport, cluster.name, cluster.meta_addresses.values())
    led = {slot.id for slot in view.table.slots if slot.leader == victim.name}
    slot_of = cluster.slot_function().slot_of
    probes = [name for name in names if slot_of(DataInfo.parse(name).id) in led]
    began = time.monotonic()
    victim.kill()
    async with asyncio.timeout(GENEROUS_SECONDS):
        answers = await asyncio.gather(*(consumer.get(name) for name in probes))
    took = 1000 * (time.monotonic() - began)
    if not all(answers):
        raise ClientError("a lookup after a data server's death found no provider")
    victim.start()
    await cluster.ready(transport)
    return took


async def _kill_session_server(
    cluster: LocalCluster, transport: Transport, provider: Client, publications: list[Publication]
) -> float:
    """Milliseconds until a change published right after the kill is acknowledged through another server."""
    victim = next(server for server in cluster.of(Role.SESSION) if server.dialled == provider.server)
    view = await cluster_view(transport, cluster.name, cluster.meta_addresses.values())
    lives = {node.process_id for node in view.sessions if node.name == victim.name}
    began = time.monotonic()
    victim.kill()
    publications[0].republish(str(began))
    async with asyncio.timeout(GENEROUS_SECONDS):
        await publications[0].acknowledged()
    took = 1000 * (time.monotonic() - began)
    victim.start()
    async with asyncio.timeout(GENEROUS_SECONDS):
        # Killed a moment ago it may still be taken for a member: only its next life will do.
        while lives & {node.process_id for node in (await cluster.ready(transport)).sessions}:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
    return took


async def _kill_client(cluster: LocalCluster, consumer: Client) -> float:
    """Milliseconds until a killed provider process is gone from a subscriber's view."""
    service = f"bench.failover.client.{next(_numbers)}"
    counts: list[int] = []
    subscription = consumer.subscribe(service, lambda s: counts.append(len(s.instances)))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROVIDER, cluster.name, service, *cluster.session_addresses, stdin=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(GENEROUS_SECONDS):
            while counts[-1:] != [1]:  # noqa: ASYNC110 - set by a callback
                await asyncio.sleep(POLL_SECONDS)
            began = time.monotonic()
            process.kill()
            while counts[-1:] != [0]:  # noqa: ASYNC110 - set by a callback
                await asyncio.sleep(POLL_SECONDS)
            took = 1000 * (time.monotonic() - began)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        subscription.unsubscribe()
    return took


_numbers = itertools.count(1)


def provide() -> None:
    """The provider process: publishes until it is killed or its input ends."""
    from slotreeve_client.tools import run_async

    async def publish(cluster: str, service: str, addresses: list[str]) -> None:
        async with open_client(addresses, cluster) as client:
            client.publish(service, "alive")
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    run_async(publish(sys.argv[1], sys.argv[2], sys.argv[3:]))
