"""Providers and subscribers that record what they did and saw."""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import dataclass

from slotreeve_client import Client, ClientOptions, Publication, Subscription, connect
from slotreeve_client.tools import open_client

from slotreeve_chaos.history import HistoryRecorder

Expected = dict[str, dict[str, int]]
"""What is published: service to register id to sequence."""

CHURN_SHARE = 0.1


@dataclass(frozen=True)
class ChaosLoad:
    """How much is published and subscribed.

    Attributes:
        name: begins the names of its services and subscribers.
        services: how many there are.
        registrations: how many there are at any time, spread over the services.
        writers: clients that publish.
        subscribers: clients that subscribe; 0: the writers do.
        subscribed: services that each subscriber subscribes to.
        rate: changes a second, of all writers together.
    """

    name: str = "chaos"
    services: int = 100
    registrations: int = 100
    writers: int = 3
    subscribers: int = 3
    subscribed: int = 100
    rate: float = 100.0


DEFAULT_LOAD = ChaosLoad()


class ChaosWorkload:
    """``writers`` and ``subscribers`` clients in this process, and provider processes that can be killed.

    Writers republish at ``rate`` a second, all together; now and then one ends a registration and begins another. The
    data of registration ``r`` are ``r``'s sequence number.
    """

    def __init__(
        self,
        sessions: list[str],
        options: ClientOptions,
        recorder: HistoryRecorder,
        rng: random.Random,
        load: ChaosLoad = DEFAULT_LOAD,
    ) -> None:
        self._sessions, self._options, self._recorder, self._rng = sessions, options, recorder, rng
        self._load = load
        self._services = [f"{load.name}.service.{number}" for number in range(load.services)]
        self._writers: list[Client] = []
        self._subscribers: list[Client] = []
        self._publications: list[Publication] = []
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Connect, publish and subscribe everything, then keep republishing."""
        self._writers = [connect(*self._sessions, options=self._options) for _ in range(self._load.writers)]
        own = [connect(*self._sessions, options=self._options) for _ in range(self._load.subscribers)]
        self._subscribers = own or self._writers
        for number in range(self._load.registrations):
            self._publish(self._writers[number % len(self._writers)], self._services[number % len(self._services)])
        await asyncio.gather(*(writer.flush() for writer in self._writers))
        subscriptions = [
            self._subscribe(client, f"{self._load.name}-subscriber-{number}", service)
            for number, client in enumerate(self._subscribers)
            for service in self._rng.sample(self._services, self._load.subscribed)
        ]
        await asyncio.gather(*(subscription.ready() for subscription in subscriptions))
        self._task = asyncio.get_running_loop().create_task(self._keep_publishing())

    async def end(self) -> Expected:
        """Stop publishing, wait until all is acknowledged; returns what is published."""
        assert self._task is not None
        self._task.cancel()
        result = (await asyncio.gather(self._task, return_exceptions=True))[0]
        if isinstance(result, Exception):
            raise result
        await asyncio.gather(*(writer.flush() for writer in self._writers))
        expected: Expected = {service: {} for service in self._services}
        for publication in self._publications:
            if publication.data is not None:
                service = publication.data_info_id.partition("#")[0]
                expected[service][publication.register_id] = int(publication.data[0])
        return expected

    async def close(self) -> None:
        """Close every client."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*(client.close() for client in {*self._writers, *self._subscribers}))

    def _subscribe(self, client: Client, subscriber: str, service: str) -> Subscription:
        self._recorder.append("subscribed", subscriber=subscriber, service=service)
        return client.subscribe(service, lambda subscription: self._seen(subscriber, subscription))

    def _publish(self, writer: Client, service: str) -> None:
        publication = writer.publish(service, "1")
        self._publications.append(publication)
        self._recorder.append("published", register_id=publication.register_id, service=service, sequence=1)

    async def _keep_publishing(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            number = self._rng.randrange(len(self._publications))
            publication = self._publications[number]
            service = publication.data_info_id.partition("#")[0]
            if self._rng.random() < CHURN_SHARE:
                self._recorder.append("ended", register_id=publication.register_id, service=service)
                publication.unpublish()
                del self._publications[number]
                self._publish(self._rng.choice(self._writers), self._rng.choice(self._services))
            else:
                publication.republish(str(publication.version + 1))
                self._recorder.append(
                    "published", register_id=publication.register_id, service=service, sequence=publication.version
                )
            due = max(due + 1 / self._load.rate, loop.time() - 1)
            await asyncio.sleep(max(0.0, due - loop.time()))

    def _seen(self, subscriber: str, subscription: Subscription) -> None:
        self._recorder.append(
            "seen",
            subscriber=subscriber,
            service=subscription.data_info_id.partition("#")[0],
            version=subscription.version,
            instances={i.register_id: int(i.data[0]) for i in subscription.instances},
        )

    async def start_provider(self) -> ProviderProcess:
        """A provider process of its own, of some services; returns once it has published."""
        provider = ProviderProcess(self._recorder, self._rng.sample(self._services, 10))
        await provider.start(self._options, self._sessions)
        return provider


class ProviderProcess:
    """A provider process that can be killed or paused by its handle."""

    def __init__(self, recorder: HistoryRecorder, services: list[str]) -> None:
        self._recorder, self._services = recorder, services
        self._register_ids: list[str] = []
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, options: ClientOptions, sessions: list[str]) -> None:
        """Start it, and record what it publishes."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "slotreeve_chaos.workload",
            options.cluster,
            ",".join(sessions),
            *self._services,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self.process.stdout is not None
        for service in self._services:
            register_id = (await self.process.stdout.readline()).decode().strip()
            self._register_ids.append(register_id)
            self._recorder.append("published", register_id=register_id, service=service, sequence=1)

    async def kill(self) -> None:
        """Kill it with SIGKILL, and record that."""
        assert self.process is not None
        self._recorder.append("died", register_ids=self._register_ids)
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


async def _provide(cluster: str, sessions: list[str], services: list[str]) -> None:
    async with open_client(sessions, cluster) as client:
        publications = [client.publish(service, "1") for service in services]
        await client.flush()
        for publication in publications:
            print(publication.register_id, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_provide(sys.argv[1], sys.argv[2].split(","), sys.argv[3:]))
