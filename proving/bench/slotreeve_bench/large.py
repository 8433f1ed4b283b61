"""One service with very many instances, and one client with very many subscriptions.

One client publishes the service. Few real clients subscribe to it, each with a whole copy, and very many light ones
(:mod:`slotreeve_bench.light_views`). While the service changes all the time, data servers are killed one after the
other, and a bystander publishes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from slotreeve.model.data_info import DataInfo
from slotreeve.model.datum import content_digest
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve_client import Publication
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster, ServerProcess

from slotreeve_bench.bystander import Bystander
from slotreeve_bench.workers import Commands, Worker

SERVICE = "bench.large"
SERVICE_ID = DataInfo(SERVICE).id
SINGLE = "bench.large.single."
LIGHT_PROCESSES = 2
LONGEST_JOIN_SECONDS = 1_200.0
GENEROUS_SECONDS = 300.0
POLL_SECONDS = 0.02
KILLS = 2
BETWEEN_KILLS_SECONDS = 4.0


@dataclass(frozen=True)
class LargePlan:
    """``instances`` of the service, its ``changes`` a second, its real ``subscribers`` and its ``light`` ones, in
    ``LIGHT_PROCESSES`` processes; ``subscriptions`` of the one client."""

    instances: int = 300_000
    subscribers: int = 3
    light: int = 1_000
    changes: float = 20.0
    subscriptions: int = 100_000


async def measure_large(cluster: LocalCluster, plan: LargePlan, report: Callable[[str], None]) -> dict[str, object]:
    """Open the client with many subscriptions; then publish the service, let all subscribers join, and kill two data
    servers one after the other.

    Raises:
        SlotreeveError: something did not happen in a generous time, or a process ended.
    """
    report(f"one client opens {plan.subscriptions} subscriptions")
    figures = await _open_subscriptions(cluster, plan.subscriptions)
    figures |= {"instances": plan.instances, "subscribers": plan.subscribers + plan.light}
    async with LargeScene(cluster, plan, report, figures) as scene:
        await scene.publish()
        await scene.join()
        await scene.change_and_kill()
        await scene.compare()
    return figures


class LargeScene:
    """The processes around the large service; each method is a step of the measurement and adds to ``figures``."""

    def __init__(
        self, cluster: LocalCluster, plan: LargePlan, report: Callable[[str], None], figures: dict[str, object]
    ) -> None:
        self._cluster, self._plan, self._report, self._figures = cluster, plan, report, figures
        self._transport = open_transport(cluster.transport)
        self._light: list[Worker] = []

    async def __aenter__(self) -> LargeScene:
        """Start the processes."""
        cluster, plan, module = self._cluster, self._plan, "slotreeve_bench.large"
        sessions, count = cluster.session_addresses, str(plan.instances)
        self._publisher = await Worker.start(cluster, module, "publish", count, str(plan.changes), *sessions)
        self._subscriber = await Worker.start(cluster, module, "subscribe", count, str(plan.subscribers), *sessions)
        self._bystander = await Bystander.start(cluster, sessions)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End them."""
        workers: list[Worker | Bystander] = [self._publisher, self._subscriber, self._bystander, *self._light]
        await asyncio.gather(*(worker.stop() for worker in workers), self._transport.close())

    async def publish(self) -> None:
        """The service is published, and the real subscribers see all of it."""
        self._report(f"one client publishes {self._plan.instances} instances of one service")
        began = time.monotonic()
        await self._publisher.answer(GENEROUS_SECONDS)
        await self._subscriber.answer(GENEROUS_SECONDS)
        self._figures["seconds_until_every_view_is_complete"] = round(time.monotonic() - began, 3)
        self._figures["others_acknowledged_ms_at_first"] = spread_of(await self._bystander.take())

    async def join(self) -> None:
        """The light subscribers join."""
        if not self._plan.light:
            return
        self._report(f"{self._plan.light} light subscribers join")
        began, sessions = time.monotonic(), self._cluster.session_addresses
        each = -(-self._plan.light // LIGHT_PROCESSES)
        for first in range(0, self._plan.light, each):
            count = str(min(each, self._plan.light - first))
            self._light.append(
                await Worker.start(self._cluster, "slotreeve_bench.light_subscribers", SERVICE_ID, count, *sessions)
            )
        megabytes = sum(await asyncio.gather(*(worker.answer(LONGEST_JOIN_SECONDS) for worker in self._light)))
        seconds = time.monotonic() - began
        self._figures |= {
            "seconds_until_light_subscribers_have_all": round(seconds, 3),
            "megabytes_pushed_to_them": megabytes,
            "megabytes_a_second": round(megabytes / seconds, 1),
            "others_acknowledged_ms_while_they_join": spread_of(await self._bystander.take()),
        }

    async def change_and_kill(self) -> None:
        """The service changes; two data servers are killed one after the other."""
        self._publisher.tell("change")
        await asyncio.sleep(BETWEEN_KILLS_SECONDS)
        self._figures["others_acknowledged_ms_while_it_changes"] = spread_of(await self._bystander.take())
        for victim in self._cluster.of(Role.DATA)[:KILLS]:
            self._report(f"{victim.name} is killed")
            victim.kill()
            began = time.monotonic()
            await self._replaced(victim)
            self._figures[f"seconds_until_{victim.name}_is_replaced"] = round(time.monotonic() - began, 3)
            await asyncio.sleep(BETWEEN_KILLS_SECONDS)
            self._figures[f"others_acknowledged_ms_without_{victim.name}"] = spread_of(await self._bystander.take())
            victim.start()
            await self._cluster.ready(self._transport, GENEROUS_SECONDS)
            await asyncio.sleep(BETWEEN_KILLS_SECONDS)
            await self._bystander.take()

    async def _replaced(self, victim: ServerProcess) -> None:
        """Wait until the others hold all slots without this server."""
        view = await self._cluster.ready(self._transport, GENEROUS_SECONDS)
        while any(node.name == victim.name for node in view.data):
            await asyncio.sleep(POLL_SECONDS)
            view = await self._cluster.ready(self._transport, GENEROUS_SECONDS)

    async def compare(self) -> None:
        """The changes end; every view must have the last one, and the light ones the leader's digest."""
        change = await self._publisher.ask("stop", GENEROUS_SECONDS)
        lowest, present, agree = await self._subscriber.ask(str(change), GENEROUS_SECONDS)
        self._figures |= {"changes": change, "lowest": lowest, "present_at_the_end": present, "views_that_agree": agree}
        if not self._light:
            return
        async with open_client(self._cluster.session_addresses, self._cluster.name) as client:
            instances = await client.get(SERVICE)
        records = [Publisher(one.register_id, "", 0, 0, "", one.zone, one.data) for one in instances]
        asked = f"{content_digest(records)} {len(records)}"
        answers = await asyncio.gather(*(worker.ask(asked, GENEROUS_SECONDS) for worker in self._light))
        agree, lows, wrong, lost = zip(*answers, strict=True)
        self._figures |= {
            "light_views_that_agree": sum(agree),
            "lowest_in_a_light_view": min(lows),
            "wrong_pushes": sum(wrong),
            "light_connections_lost": sum(lost),
        }


async def _open_subscriptions(cluster: LocalCluster, count: int) -> dict[str, object]:
    servers = [server.pid for server in cluster.servers.values() if server.is_running]
    async with open_client(cluster.session_addresses, cluster.name) as client:
        await client.connected()
        began, spent, spent_here = time.monotonic(), processor_seconds(servers), time.process_time()
        views = [client.subscribe(f"{SINGLE}{number}") for number in range(count)]
        async with asyncio.timeout(GENEROUS_SECONDS):
            for view in views:
                await view.ready()
        return {
            "subscriptions": count,
            "seconds_until_they_are_ready": round(time.monotonic() - began, 3),
            "processor_seconds_of_the_client": round(time.process_time() - spent_here, 2),
            "processor_seconds_of_all_servers": round(processor_seconds(servers) - spent, 2),
        }


def processor_seconds(pids: Iterable[int]) -> float:
    """Processor time that these processes have taken so far (Linux)."""
    ticks = 0
    for pid in pids:
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


async def publish_large(cluster: str, count: int, changes: float, addresses: list[str]) -> None:
    """The publisher: reports that everything is stored; then, asked to, it changes one instance after the other until
    it gets another command, which it answers with the number of the last change."""
    commands = Commands()
    async with open_client(addresses, cluster) as client:
        publications: list[Publication] = []
        for number in range(count):
            publications.append(client.publish(SERVICE, f"10.0.0.1:{number}"))
            if number % 1_000 == 0:
                await asyncio.sleep(0)
        await client.flush()
        commands.answer("stored")
        await commands.next()
        asked = asyncio.create_task(commands.next())
        change = 0
        while not asked.done():
            change += 1
            publications[1 + change % (count - 1)].republish(f"change {change}")
            await asyncio.sleep(1 / changes)
        publications[0].republish(f"last {change}")
        await client.flush()
        commands.answer(change)
        await commands.next()


async def subscribe_large(cluster: str, count: int, subscribers: int, addresses: list[str]) -> None:
    """The subscribers: they report that every view is complete; then, asked for a change, they wait until each view has
    it, and answer with the lowest number of instances since, the number now, and how many views have all of them."""
    commands = Commands()
    clients = [open_client(addresses, cluster) for _ in range(subscribers)]
    views = [client.subscribe(SERVICE) for client in clients]
    while not all(view.count == count for view in views):  # noqa: ASYNC110 - many views
        await asyncio.sleep(POLL_SECONDS)
    lowest = count
    commands.answer("complete")
    asked = asyncio.create_task(commands.next())
    while not asked.done():
        lowest = min(lowest, *(view.count for view in views))
        await asyncio.sleep(POLL_SECONDS)
    last = f"last {asked.result()}".encode()
    while not all(any(instance.data == (last,) for instance in view.instances) for view in views):  # noqa: ASYNC110
        await asyncio.sleep(1.0)  # each look costs a moment, because it makes a list of all instances
    sizes = [len(view.instances) for view in views]
    commands.answer((lowest, min(sizes), sizes.count(count)))
    await commands.next()


if __name__ == "__main__":
    from slotreeve_client.tools import run_async

    name, what, size, rate, *rest = sys.argv[1:]
    if what == "publish":
        run_async(publish_large(name, int(size), float(rate), rest))
    else:
        run_async(subscribe_large(name, int(size), int(rate), rest))
