"""One service with very many instances, and one client with very many subscriptions.

Few clients publish the service and few subscribe to it, all of them real; each subscriber holds a whole copy. While the
service changes all the time, data servers are killed one after the other, and a bystander publishes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from slotreeve.model.nodes import Role
from slotreeve_client import Publication
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster

from slotreeve_bench.bystander import Bystander
from slotreeve_bench.workers import Commands, Worker

SERVICE = "bench.large"
SINGLE = "bench.large.single."
GENEROUS_SECONDS = 300.0
POLL_SECONDS = 0.02
KILLS = 2
BETWEEN_KILLS_SECONDS = 2.0


@dataclass(frozen=True)
class LargePlan:
    """``instances`` of the service, its real ``subscribers``, its ``changes`` a second; ``subscriptions`` of the one
    client."""

    instances: int = 300_000
    subscribers: int = 4
    changes: float = 20.0
    subscriptions: int = 100_000


async def measure_large(cluster: LocalCluster, plan: LargePlan, report: Callable[[str], None]) -> dict[str, object]:
    """Publish the service, kill two data servers one after the other, then open the client with many subscriptions.

    Raises:
        SlotreeveError: something did not happen in a generous time, or a process ended.
    """
    sessions = cluster.session_addresses
    module = "slotreeve_bench.large"
    report(f"one client publishes {plan.instances} instances of one service")
    publisher = await Worker.start(cluster, module, "publish", str(plan.instances), str(plan.changes), *sessions)
    subscriber = await Worker.start(cluster, module, "subscribe", str(plan.instances), str(plan.subscribers), *sessions)
    bystander = await Bystander.start(cluster, sessions)
    transport = open_transport(cluster.transport)
    figures: dict[str, object] = {"instances": plan.instances, "subscribers": plan.subscribers}
    try:
        began = time.monotonic()
        await publisher.answer(GENEROUS_SECONDS)
        await subscriber.answer(GENEROUS_SECONDS)
        figures["seconds_until_every_view_is_complete"] = round(time.monotonic() - began, 3)
        figures["others_acknowledged_ms_at_first"] = spread_of(await bystander.take())
        for victim in cluster.of(Role.DATA)[:KILLS]:
            report(f"{victim.name} is killed")
            victim.kill()
            began = time.monotonic()
            await cluster.ready(transport, GENEROUS_SECONDS)
            figures[f"seconds_until_{victim.name}_is_replaced"] = round(time.monotonic() - began, 3)
            await asyncio.sleep(BETWEEN_KILLS_SECONDS)
            figures[f"others_acknowledged_ms_without_{victim.name}"] = spread_of(await bystander.take())
            victim.start()
            await cluster.ready(transport, GENEROUS_SECONDS)
            await bystander.take()
        change = await publisher.ask("stop", GENEROUS_SECONDS)
        lowest, present, agree = await subscriber.ask(str(change), GENEROUS_SECONDS)
        figures |= {"changes": change, "lowest": lowest, "present_at_the_end": present, "views_that_agree": agree}
    finally:
        await asyncio.gather(publisher.stop(), subscriber.stop(), bystander.stop(), transport.close())
    report(f"one client opens {plan.subscriptions} subscriptions")
    figures["subscriptions"] = plan.subscriptions
    figures["seconds_until_they_are_ready"] = await _open_subscriptions(cluster, plan.subscriptions)
    return figures


async def _open_subscriptions(cluster: LocalCluster, count: int) -> float:
    async with open_client(cluster.session_addresses, cluster.name) as client:
        await client.connected()
        began = time.monotonic()
        views = [client.subscribe(f"{SINGLE}{number}") for number in range(count)]
        async with asyncio.timeout(GENEROUS_SECONDS):
            for view in views:
                await view.ready()
        return round(time.monotonic() - began, 3)


async def publish_large(cluster: str, count: int, changes: float, addresses: list[str]) -> None:
    """The publisher: reports that everything is stored; then it changes one instance after the other until it gets a
    command, which it answers with the number of the last change."""
    commands = Commands()
    async with open_client(addresses, cluster) as client:
        publications: list[Publication] = []
        for number in range(count):
            publications.append(client.publish(SERVICE, f"10.0.0.1:{number}"))
            if number % 1_000 == 0:
                await asyncio.sleep(0)
        await client.flush()
        commands.answer("stored")
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
    while not all(len(view.instances) == count for view in views):  # noqa: ASYNC110 - many views
        await asyncio.sleep(1.0)
    lowest = count
    commands.answer("complete")
    asked = asyncio.create_task(commands.next())
    while not asked.done():
        lowest = min(lowest, *(len(view.instances) for view in views))
        await asyncio.sleep(1.0)  # each look costs a moment, because it makes a list of all instances
    last = f"last {asked.result()}".encode()
    while not all(any(instance.data == (last,) for instance in view.instances) for view in views):  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)
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
