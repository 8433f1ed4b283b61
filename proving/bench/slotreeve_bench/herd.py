"""A session server with very many clients is killed, and another one stopped in order: what all others see of it.

Real clients run in worker processes. They get the address of one session server only, and learn the others from it. An
observer on the surviving session server subscribes to all services, and records the lowest number of instances that it
saw of each. A bystander there publishes all the time.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slotreeve.errors import ClientError
from slotreeve_client import Client, Publication, Subscription
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.figures import spread_of
from slotreeve_harness.processes import LocalCluster, ServerProcess

from slotreeve_bench.bystander import Bystander
from slotreeve_bench.workers import Commands, Worker

CLIENTS_PER_PROCESS = 2_000
"""A connection needs four descriptors, a client that moves has two, and many systems allow 20,000 for each process."""
INSTANCES_PER_SERVICE = 20
YOUNG_OBJECTS = 20_000
"""So many new objects of a worker process begin a garbage collection."""
GENEROUS_SECONDS = 300.0
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class HerdPlan:
    """How large the herd is: clients, and registrations and subscriptions of each. ``watch_seconds``: the observer goes
    on for so long after the herd has settled; it is longer than the grace that a lost session server's clients have."""

    clients: int = 10_000
    registrations: int = 10
    subscriptions: int = 10
    watch_seconds: float = 6.0

    @property
    def services(self) -> int:
        """Number of services; each has about :data:`INSTANCES_PER_SERVICE` instances."""
        return max(self.subscriptions, self.clients * self.registrations // INSTANCES_PER_SERVICE, 1)

    @property
    def published(self) -> int:
        """Number of registrations of all clients."""
        return self.clients * self.registrations

    @property
    def arguments(self) -> list[str]:
        """The sizes, for the command line of a worker process."""
        return [str(self.clients), str(self.registrations), str(self.subscriptions)]

    def publishes(self, number: int) -> list[str]:
        """The services that client ``number`` publishes."""
        first = number * self.registrations
        return [_service((first + index) % self.services) for index in range(self.registrations)]

    def watches(self, number: int) -> list[str]:
        """The services that client ``number`` subscribes to, all of them different."""
        step = max(1, self.services // max(1, self.subscriptions))
        return [_service((number + index * step) % self.services) for index in range(self.subscriptions)]


def _service(number: int) -> str:
    return f"bench.herd.{number}"


async def measure_herd(cluster: LocalCluster, plan: HerdPlan, report: Callable[[str], None]) -> dict[str, object]:
    """Start the herd on one session server, kill that; start it again, and stop the one that has the herd now.

    Raises:
        SlotreeveError: something did not happen in a generous time, or a process ended.
    """
    first, second = cluster.servers["session-1"], cluster.servers["session-2"]
    herd = await Herd.start(cluster, plan, first.dialled)
    try:
        report(f"{plan.clients} clients publish {plan.published} registrations")
        published = await herd.ask("publish")
        report("they subscribe")
        subscribed = await herd.ask("subscribe")
        killed = await _measure_move(cluster, herd, first, second, first.kill, report)
        first.start()
        transport = open_transport(cluster.transport)
        await cluster.ready(transport)
        await transport.close()
        stopped = await _measure_move(cluster, herd, second, first, second.signal_stop, report)
        second.stop()
    finally:
        await herd.stop()
    return {
        "clients": plan.clients,
        "registrations_of_each": plan.registrations,
        "subscriptions_of_each": plan.subscriptions,
        "services": plan.services,
        "seconds_to_publish": round(published, 3),
        "seconds_to_subscribe": round(subscribed, 3),
        **{f"killed_{name}": figure for name, figure in killed.items()},
        **{f"stopped_{name}": figure for name, figure in stopped.items()},
    }


async def _measure_move(
    cluster: LocalCluster,
    herd: Herd,
    left: ServerProcess,
    kept: ServerProcess,
    end: Callable[[], None],
    report: Callable[[str], None],
) -> dict[str, object]:
    """End the server ``left`` by ``end``; watch from the server ``kept``."""
    plan = herd.plan
    observer = await Worker.start(cluster, "slotreeve_bench.herd", "observe", *plan.arguments, kept.dialled)
    bystander = await Bystander.start(cluster, [kept.dialled])
    try:
        await observer.answer(GENEROUS_SECONDS)
        await bystander.take()
        await asyncio.sleep(1.0)
        quiet_ms = await bystander.take()
        moving = asyncio.ensure_future(herd.ask(f"move {left.dialled}"))
        await asyncio.sleep(4 * POLL_SECONDS)
        report(f"{left.name} ends")
        began = time.monotonic()
        end()
        await moving
        seconds = time.monotonic() - began
        moving_ms = await bystander.take()
        await asyncio.sleep(plan.watch_seconds)
        lowest, present, vanished = await observer.ask("take", GENEROUS_SECONDS)
        statistics = [await worker.ask("count", GENEROUS_SECONDS) for worker in herd.workers]
    finally:
        await observer.stop()
        await bystander.stop()
    return {
        "vanished": vanished,
        "lowest": lowest,
        "present_at_the_end": present,
        "wrong_views": sum(wrong for _, wrong in statistics),
        "connections": sum(connections for connections, _ in statistics),
        "seconds_until_current": round(seconds, 3),
        "others_acknowledged_ms_before": spread_of(quiet_ms),
        "others_acknowledged_ms": spread_of(moving_ms),
    }


class Herd:
    """The worker processes with the clients. :meth:`stop` it."""

    def __init__(self, plan: HerdPlan, workers: list[Worker]) -> None:
        self.plan, self.workers = plan, workers

    @classmethod
    async def start(cls, cluster: LocalCluster, plan: HerdPlan, address: str) -> Herd:
        """Start them; returns before they are connected."""
        workers = []
        for first in range(0, plan.clients, CLIENTS_PER_PROCESS):
            end = min(plan.clients, first + CLIENTS_PER_PROCESS)
            arguments = ["take-part", *plan.arguments, str(first), str(end), address]
            workers.append(await Worker.start(cluster, "slotreeve_bench.herd", *arguments))
        return cls(plan, workers)

    async def ask(self, command: str) -> float:
        """Have all of them do something; returns how many seconds that took."""
        began = time.monotonic()
        for worker in self.workers:
            worker.tell(command)
        await asyncio.gather(*(worker.answer(GENEROUS_SECONDS) for worker in self.workers))
        return time.monotonic() - began

    async def stop(self) -> None:
        """End them."""
        await asyncio.gather(*(worker.stop() for worker in self.workers))


class Part:
    """The clients of one worker process, from client number ``first`` to the one before ``end``."""

    def __init__(self, plan: HerdPlan, first: int, end: int, open_one: Callable[[], Client]) -> None:
        self._plan = plan
        self._clients = {number: open_one() for number in range(first, end)}
        self._publications: list[Publication] = []
        self._subscriptions: list[Subscription] = []

    async def publish(self) -> None:
        """Publish everything; returns when it is acknowledged."""
        for number, client in self._clients.items():
            self._publications += [client.publish(name, f"10.0.0.1:{number}") for name in self._plan.publishes(number)]
            await asyncio.sleep(0)  # the other clients of this process are not frozen meanwhile
        await asyncio.gather(*(client.flush() for client in self._clients.values()))

    async def subscribe(self) -> None:
        """Subscribe; returns when every view is complete."""
        for number, client in self._clients.items():
            self._subscriptions += [client.subscribe(name) for name in self._plan.watches(number)]
            await asyncio.sleep(0)
        await asyncio.gather(*(subscription.ready() for subscription in self._subscriptions))

    async def move(self, left: str) -> None:
        """Returns when all are connected elsewhere than at ``left``, everything is acknowledged, and every subscription
        is confirmed."""
        # Real clients have processes of their own, with few objects. Here the garbage collector would go through the
        # objects of two thousand clients again and again.
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)
        moving = list(self._clients.values())
        while moving:
            while moving and self._has_moved(moving[-1], left):
                moving.pop()
            if not moving:  # some may have moved on since they were looked at
                moving = [client for client in self._clients.values() if not self._has_moved(client, left)]
            if moving:
                await asyncio.sleep(POLL_SECONDS)

    @staticmethod
    def _has_moved(client: Client, left: str) -> bool:
        if client.server in (None, left):
            return False
        statistics = client.statistics()
        return not statistics.unacknowledged and not statistics.unconfirmed

    def count(self) -> tuple[int, int]:
        """Number of connections so far, and of views that do not have all instances."""
        connections = sum(client.statistics().reconnections + 1 for client in self._clients.values())
        most = self._plan.published / self._plan.services
        wrong = sum(not most - 1 < len(subscription.instances) < most + 1 for subscription in self._subscriptions)
        return connections, wrong


async def take_part(cluster: str, numbers: Sequence[str], addresses: list[str]) -> None:
    """The process of a part of the herd; ends when it is killed or its input ends."""
    clients, registrations, subscriptions, first, end = (int(number) for number in numbers)
    plan = HerdPlan(clients, registrations, subscriptions)
    part = Part(plan, first, end, lambda: open_client(addresses, cluster))
    commands = Commands()
    while command := (await commands.next()).split():
        match command:
            case ["publish"]:
                await part.publish()
                commands.answer("published")
            case ["subscribe"]:
                await part.subscribe()
                commands.answer("subscribed")
            case ["move", left]:
                await part.move(left)
                commands.answer("moved")
            case ["count"]:
                commands.answer(part.count())
            case other:
                raise ClientError(f"unknown command {other}")


async def observe(cluster: str, numbers: Sequence[str], addresses: list[str]) -> None:
    """The observer process: answers once it sees everything; then at each command with the lowest number of all
    instances that it saw, the number now, and the sum over all services of how many were missing at the worst time."""
    plan = HerdPlan(*(int(number) for number in numbers))
    seen: dict[str, int] = {}
    lowest: dict[str, int] = {}
    total = lowest_total = 0
    is_complete = asyncio.Event()

    def changed(subscription: Subscription) -> None:
        nonlocal total, lowest_total
        name, count = subscription.data_info_id, len(subscription.instances)
        total += count - seen.get(name, 0)
        seen[name] = count
        if is_complete.is_set():
            lowest[name] = min(lowest[name], count)
            lowest_total = min(lowest_total, total)
        elif total == plan.published:
            lowest.update(seen)
            lowest_total = total
            is_complete.set()

    commands = Commands()
    async with open_client(addresses, cluster) as client:
        for number in range(plan.services):
            client.subscribe(_service(number), changed)
        await is_complete.wait()
        expected = dict(lowest)
        commands.answer("complete")
        while await commands.next():
            commands.answer((lowest_total, total, sum(expected[name] - lowest[name] for name in expected)))


if __name__ == "__main__":
    from slotreeve_client.tools import run_async

    name, what, *rest = sys.argv[1:]
    size = 5 if what == "take-part" else 3
    run_async((take_part if what == "take-part" else observe)(name, rest[:size], rest[size:]))
