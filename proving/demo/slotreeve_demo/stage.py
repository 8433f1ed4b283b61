"""The demonstration itself: publish, subscribe, kill, compare."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from slotreeve.errors import ClientError, RequestTimeout, TransportError
from slotreeve.model.data_info import DataInfo
from slotreeve.model.nodes import Role
from slotreeve.ports import Transport
from slotreeve_client import Client, ClientState, Provider, Publication, Subscription
from slotreeve_client.administration import cluster_leader, cluster_view
from slotreeve_client.tools import open_client
from slotreeve_harness.processes import LocalCluster
from slotreeve_protocol.meta_messages import LeaderIs, View

from slotreeve_demo.ledger import LedgerComparison, Watch, compare, compare_lookups, expected_views
from slotreeve_demo.over_rest import read_over_rest
from slotreeve_demo.pace import Pace

LEAST_PUBLISHES = 10_000
SETTLE_SECONDS = 20.0
GENEROUS_SECONDS = 60.0
AFTER_KILL_SECONDS = 2.0
POLL_SECONDS = 0.005
LOOKUPS = 500


@dataclass(frozen=True)
class DemoPlan:
    """How big the demonstration is. ``rate``: republishes a second, all publishers together, while servers die."""

    publishers: int
    subscribers: int
    rate: float
    seed: int


@dataclass
class DemoOutcome:
    """The result; times in milliseconds unless the name says otherwise.

    ``reconnections``: of clients whose session server was not killed. ``slowdown``: see :class:`Pace`. ``seconds``: of
    each phase. ``over_rest``: registrations that were read from the gateway; ``different_over_rest``: those that it
    showed otherwise than they were published. ``directory``: where the logs and the state are, if they were kept.
    """

    services: int = 0
    publishes: int = 0
    acknowledged_per_second: float = 0.0
    changes: int = 0
    callbacks: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    failovers_ms: dict[str, float] = field(default_factory=dict)
    moves: dict[str, int] = field(default_factory=dict)
    missing: list[tuple[str, str]] = field(default_factory=list)
    stale: list[tuple[str, str]] = field(default_factory=list)
    vanished: list[tuple[str, str]] = field(default_factory=list)
    compared: int = 0
    over_rest: int = 0
    different_over_rest: list[tuple[str, str]] = field(default_factory=list)
    reconnections: int = 0
    slowdown: float = 1.0
    seconds: dict[str, float] = field(default_factory=dict)
    directory: str = ""


ReportProgress = Callable[[str, int, int], None]
"""(the step, how much of it is done, how much there is); 0 of 0 where that is not known."""


Keep = Callable[[DemoOutcome, LocalCluster], Awaitable[None]]
"""What goes on with the cluster after the demonstration."""


class DemoStage:
    """One demonstration on a running cluster. Clients live in this process, each with a connection of its own."""

    def __init__(
        self,
        cluster: LocalCluster,
        transport: Transport,
        names: Sequence[str],
        plan: DemoPlan,
        report_progress: ReportProgress,
    ) -> None:
        self._cluster, self._transport, self._names = cluster, transport, list(names)
        self._plan, self._report = plan, report_progress
        self._rng = random.Random(plan.seed)
        self._watch = Watch()
        self._pace = Pace()
        self._displaced = 0
        self._publishers: list[Client] = []
        self._subscribers: list[Client] = []
        self._publications: list[Publication] = []
        self._subscriptions: list[Subscription] = []
        self.outcome = DemoOutcome(services=len(self._names))

    async def play(self, keep: Keep | None = None) -> DemoOutcome:
        """Play all of it. ``keep`` is awaited at the end, while the clients are connected and publish.

        Raises:
            RequestTimeout: something did not happen within a generous time; the message names it.
        """
        async with AsyncExitStack() as open_clients:
            self._pace.calibrate()
            watching = asyncio.create_task(self._pace.watch())
            try:
                await self._play(open_clients)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            self._conclude()
            if keep is not None:
                await keep(self.outcome, self._cluster)
        return self.outcome

    def _conclude(self) -> None:
        self.outcome.callbacks = self._watch.callbacks
        self.outcome.latencies_ms = self._watch.latencies_ms
        self.outcome.vanished = self._watch.vanished
        self.outcome.slowdown = self._pace.slowdown

    async def _play(self, open_clients: AsyncExitStack) -> None:
        for clients, count in (
            (self._publishers, self._plan.publishers),
            (self._subscribers, self._plan.subscribers),
        ):
            for _ in range(count):
                client = open_client(self._cluster.session_addresses, self._cluster.name)
                clients.append(await open_clients.enter_async_context(client))
        await self._timed("publish", self._publish_all())
        await self._timed("subscribe", self._subscribe_all())
        await self._timed("compare before", self._compare("before the kills"))
        for publication in self._publications:
            self._watch.hold(publication)
        await self._timed("kills", self._survive_kills())
        await self._timed("compare after", self._compare("after the kills"))
        await self._timed("look up", self._look_up())
        await self._timed("read over REST", self._read_over_rest())
        await self._timed("unpublish", self._unpublish_some())
        clients = [*self._publishers, *self._subscribers]
        reconnections = sum(client.statistics().reconnections for client in clients)
        self.outcome.reconnections = reconnections - self._displaced
        self._report("done", 1, 1)

    async def _timed(self, phase: str, work: Coroutine[object, object, None]) -> None:
        began = time.monotonic()
        await work
        self.outcome.seconds[phase] = round(time.monotonic() - began, 3)

    # --- publish, subscribe --------------------------------------------------------------------------------------

    async def _publish_all(self) -> None:
        count = max(len(self._names), LEAST_PUBLISHES)
        turns = zip(itertools.cycle(self._publishers), itertools.cycle(self._names), strict=False)
        began = time.monotonic()
        for number, (client, name) in enumerate(itertools.islice(turns, count), 1):
            self._publications.append(client.publish(name, _stamp(f"127.0.0.1:{number % 65536}")))
            if number % 500 == 0:
                self._report("publishing", self._acknowledged(), count)
                await asyncio.sleep(0)
        await self._until(self._acknowledged, count, "every publish is acknowledged", "publishing")
        self.outcome.publishes = count
        self.outcome.acknowledged_per_second = count / (time.monotonic() - began)

    def _acknowledged(self) -> int:
        return sum(publication.is_acknowledged for publication in self._publications)

    async def _subscribe_all(self) -> None:
        watch = self._watch

        def changed(subscription: Subscription) -> None:
            watch.changed(subscription, time.monotonic_ns())

        for number, (client, name) in enumerate(itertools.product(self._subscribers, self._names), 1):
            self._subscriptions.append(client.subscribe(name, changed))
            if number % 500 == 0:
                self._report("subscribing", self._ready(), len(self._names) * len(self._subscribers))
                await asyncio.sleep(0)
        count = len(self._subscriptions)
        await self._until(self._ready, count, "every subscriber has its first push", "subscribing")

    def _ready(self) -> int:
        return sum(subscription.is_ready for subscription in self._subscriptions)

    # --- kills ---------------------------------------------------------------------------------------------------

    async def _survive_kills(self) -> None:
        self._watch.measure(time.monotonic_ns())
        publishing = asyncio.create_task(self._keep_publishing())
        try:
            await asyncio.sleep(AFTER_KILL_SECONDS)
            for what, kill in (
                ("meta leader", self._kill_meta_leader),
                ("data server", self._kill_data_server),
                ("session server", self._kill_session_server),
            ):
                self._report(f"killing the {what}", 0, 0)
                before = await self._view()
                self.outcome.failovers_ms[what] = 1000 * await kill(before)
                self._report(f"publishing on without the {what}", 0, 0)
                await asyncio.sleep(AFTER_KILL_SECONDS)
                self.outcome.moves[what] = _moves(before, await self._view())
                if publishing.done():
                    break
        finally:
            publishing.cancel()
            result = (await asyncio.gather(publishing, return_exceptions=True))[0]
            self._watch.measure(None)
        if isinstance(result, Exception):
            raise result

    async def _keep_publishing(self) -> None:
        """Republish registrations picked at random, at a steady rate."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            publication = self._rng.choice(self._publications)
            publication.republish(_stamp(f"change {self.outcome.changes}"))
            self.outcome.changes += 1
            due += 1 / self._plan.rate
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _kill_meta_leader(self, view: View) -> float:
        """Seconds until another meta server leads."""
        addresses = self._cluster.meta_addresses
        known = await cluster_leader(self._transport, self._cluster.name, addresses.values())
        if known.leader is None:
            raise RequestTimeout("no meta server leads although the cluster was ready")
        began = time.monotonic()
        self._cluster.servers[known.leader].kill()
        others = [address for name, address in addresses.items() if name != known.leader]

        async with self._in_time("another meta server leads"):
            while not await self._another_leads(known, others):  # noqa: ASYNC110 - another process is polled
                await asyncio.sleep(POLL_SECONDS)
        return time.monotonic() - began

    async def _another_leads(self, former: LeaderIs, addresses: list[str]) -> bool:
        try:
            now = await cluster_leader(self._transport, self._cluster.name, addresses)
        except TransportError:
            return False
        return now.leader not in (None, former.leader) and now.term > former.term

    async def _kill_data_server(self, view: View) -> float:
        """Seconds until the slots it led are all readable again: one name of each is looked up."""
        victim = self._rng.choice(self._cluster.of(Role.DATA))
        slot_of = self._cluster.slot_function().slot_of
        names = {slot_of(DataInfo.parse(name).id): name for name in self._names}
        probes = [names[slot.id] for slot in view.table.slots if slot.leader == victim.name and slot.id in names]
        began = time.monotonic()
        victim.kill()
        async with self._in_time(f"the {len(probes)} slots of {victim.name} can be read again"):
            await asyncio.gather(*(self._subscribers[0].get(name) for name in probes))
        return time.monotonic() - began

    async def _kill_session_server(self, view: View) -> float:
        """Seconds until all of its clients work through another one: connected, everything acknowledged again."""
        clients = [*self._publishers, *self._subscribers]
        by_address = {server.dialled: server for server in self._cluster.of(Role.SESSION)}
        victim = by_address[self._busiest(clients)]
        affected = [client for client in clients if client.server == victim.dialled]
        self._displaced += len(affected)
        began = time.monotonic()
        victim.kill()
        await self._until(
            lambda: sum(c.state is ClientState.CONNECTED and c.server != victim.dialled for c in affected),
            len(affected),
            f"the {len(affected)} clients of {victim.name} are connected elsewhere",
        )
        async with self._in_time("what they publish is acknowledged"):
            await asyncio.gather(*(client.flush() for client in affected))
        return time.monotonic() - began

    @staticmethod
    def _busiest(clients: Iterable[Client]) -> str:
        addresses = [client.server for client in clients if client.server is not None]
        return max(sorted(set(addresses)), key=addresses.count)

    # --- checks --------------------------------------------------------------------------------------------------

    async def _compare(self, when: str) -> None:
        """Wait until every subscriber sees exactly what is published; differences that remain go into the outcome."""
        self._report(f"comparing {when}", 0, 0)
        async with self._in_time("every change is acknowledged"):
            await asyncio.gather(*(client.flush() for client in self._publishers))
        expected = expected_views(self._publications)
        deadline = time.monotonic() + self._pace.stretched(SETTLE_SECONDS)
        result = compare(expected, self._subscriptions)
        while not result.is_equal and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
            result = compare(expected, self._subscriptions)
        self._note(result)

    def _note(self, result: LedgerComparison) -> None:
        self.outcome.missing += result.missing
        self.outcome.stale += result.stale
        self.outcome.compared += result.compared

    async def _look_up(self) -> None:
        """A newcomer asks the slot leaders about a sample of services and lists all of them."""
        self._report("looking up as a newcomer", 0, 0)
        expected = expected_views(self._publications)
        async with open_client(self._running_sessions(), self._cluster.name) as newcomer:
            sample = self._rng.sample(sorted(expected), min(LOOKUPS, len(expected)))
            seen: dict[str, tuple[Provider, ...]] = {service: await newcomer.get(service) for service in sample}
            self._note(compare_lookups(expected, seen))
            counts = await newcomer.list()
            self.outcome.missing += [(service, "in the list") for service in expected.keys() - counts.keys()]
            self.outcome.stale += [(service, "in the list") for service in counts.keys() - expected.keys()]

    async def _read_over_rest(self) -> None:
        """A program without our client asks the gateway about a sample of services."""
        self._report("reading over REST", 0, 0)
        expected = expected_views(self._publications)
        sample = self._rng.sample(sorted(expected), min(LOOKUPS, len(expected)))
        deadline = time.monotonic() + self._pace.stretched(SETTLE_SECONDS)
        while True:
            result = compare_lookups(expected, await self._shown_by_gateway(sample))
            if result.is_equal or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        self.outcome.over_rest = result.compared
        self.outcome.different_over_rest = [*result.missing, *result.stale]

    async def _shown_by_gateway(self, services: Sequence[str]) -> dict[str, tuple[Provider, ...]]:
        [address] = self._cluster.gateway_addresses
        async with self._in_time("the gateway answers"):
            while True:
                try:
                    return await asyncio.to_thread(read_over_rest, address, services)
                except ClientError:
                    await asyncio.sleep(0.05)

    def _running_sessions(self) -> list[str]:
        return [server.dialled for server in self._cluster.of(Role.SESSION) if server.is_running]

    async def _unpublish_some(self) -> None:
        """A tenth of all registrations ends; after that no subscriber may see them."""
        gone = self._rng.sample(self._publications, len(self._publications) // 10)
        self._watch.release_all()
        for publication in gone:
            publication.unpublish()
        await self._compare("after unpublishing a tenth")

    # --- waiting -------------------------------------------------------------------------------------------------

    async def _view(self) -> View:
        addresses = [server.dialled for server in self._cluster.of(Role.META) if server.is_running]
        return await cluster_view(self._transport, self._cluster.name, addresses)

    async def _until(self, done: Callable[[], int], count: int, what: str, step: str = "") -> None:
        async with self._in_time(what):
            while (reached := done()) < count:
                if step:
                    self._report(step, reached, count)
                await asyncio.sleep(0.05 if step else POLL_SECONDS)

    @asynccontextmanager
    async def _in_time(self, what: str) -> AsyncIterator[None]:
        """Give the block a generous time, longer on a machine that is busy; after that, fail with the message that
        ``what`` did not happen."""
        began = time.monotonic()
        try:
            async with self._pace.within(GENEROUS_SECONDS):
                yield
        except TimeoutError:
            raise RequestTimeout(f"did not happen within {time.monotonic() - began:.0f} s: {what}") from None


def _stamp(text: str) -> str:
    return f"{time.monotonic_ns()} {text}"


def _moves(before: View, after: View) -> int:
    """Places in the slot table that changed hands."""
    if len(before.table.slots) != len(after.table.slots):
        return 0
    pairs = zip(before.table.slots, after.table.slots, strict=True)
    return sum((a.leader != b.leader) + len(set(b.followers) - set(a.followers)) for a, b in pairs)
