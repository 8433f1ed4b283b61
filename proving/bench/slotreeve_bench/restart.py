"""A rolling restart of every server under load: what publishers and subscribers notice of it."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time

from slotreeve.errors import SlotreeveError
from slotreeve_client import Client, Publication, Subscription
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster

GENEROUS_SECONDS = 60.0


async def measure_rolling_restart(
    cluster: LocalCluster,
    publishes_per_second: float = 500.0,
    services: int = 500,
    providers: int = 4,
    python: str = "",
) -> dict[str, object]:
    """Restart every server, one after the other, each as its operator would (SIGHUP: it will be back). They are
    started by ``python``, with the slotreeve of that environment; empty: as before.

    ``missing`` counts callbacks that showed a service without its provider although none ever ended; ``failed`` those
    publishes that were refused or not acknowledged within a minute.
    """
    transport = open_transport(cluster.transport)
    load = _Load(publishes_per_second)
    took: dict[str, float] = {}
    clients = [open_client(cluster.session_addresses, cluster.name) for _ in range(providers + 1)]
    try:
        await load.begin(clients[:-1], clients[-1], services)
        for server in cluster.servers.values():
            server.command[0] = python or server.command[0]
            began = time.monotonic()
            await asyncio.get_running_loop().run_in_executor(None, server.stop, signal.SIGHUP, GENEROUS_SECONDS)
            server.start()
            await cluster.ready(transport, GENEROUS_SECONDS)
            took[server.name] = round(time.monotonic() - began, 2)
        differing = await load.end()
    finally:
        await asyncio.gather(*(client.close() for client in clients))
        await transport.close()
    return {
        "publishes_per_second": publishes_per_second,
        "services": services,
        "providers": providers,
        "restart_seconds": took,
        "publishes": load.published,
        "failed": load.failed,
        "missing": load.missing,
        "differing_at_the_end": differing,
        "acknowledged_ms": spread_of(load.acknowledged_ms),
    }


class _Load:
    """Providers that republish at a steady rate, and a consumer of everything."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._publications: list[Publication] = []
        self._subscriptions: list[Subscription] = []
        self._waiting: set[asyncio.Task[None]] = set()
        self._watching = False
        self.published = self.failed = self.missing = 0
        self.acknowledged_ms: list[float] = []

    async def begin(self, providers: list[Client], consumer: Client, services: int) -> None:
        turns = itertools.cycle(providers)
        self._publications = [next(turns).publish(f"bench.restart.{number}", "0") for number in range(services)]
        await asyncio.gather(*(provider.flush() for provider in providers))
        self._subscriptions = [consumer.subscribe(p.data_info_id, self._changed) for p in self._publications]
        await asyncio.gather(*(subscription.ready() for subscription in self._subscriptions))
        self._watching = True
        self._task = asyncio.create_task(self._publish())

    def _changed(self, subscription: Subscription) -> None:
        self.missing += self._watching and not subscription.instances

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for publication in itertools.cycle(self._publications):
            publication.republish(str(self.published))
            self.published += 1
            # One task a publish: this measures, at hundreds a second; the product itself never does so.
            task = loop.create_task(self._acknowledged(publication))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
            due += 1 / self._rate
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _acknowledged(self, publication: Publication) -> None:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(GENEROUS_SECONDS):
                await publication.acknowledged()
            self.acknowledged_ms.append(1000 * (time.perf_counter() - began))
        except (TimeoutError, SlotreeveError):
            self.failed += 1

    async def end(self) -> int:
        """Stop publishing; how many services the consumer sees otherwise than they are, once all is acknowledged."""
        self._task.cancel()
        await asyncio.gather(*self._waiting)
        differing = 0
        for _ in range(100):
            newest = {p.data_info_id: p.data for p in self._publications}
            differing = sum([i.data for i in s.instances] != [newest[s.data_info_id]] for s in self._subscriptions)
            if not differing:
                break
            await asyncio.sleep(0.05)
        self._watching = False
        return differing
