"""The workload: clients publish, subscribe, change and read; checks of what they see after a storm."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence

from slotreeve.errors import ClientError, ModelError, RequestTimeout
from slotreeve_client import Client, ClientState
from slotreeve_client.configuration import ConfigWatch

from slotreeve_simulator.clients_watch import ClientsWatch, Registration, Watcher, read
from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.configs_watch import CONFIG_KEYS, ConfigsWatch
from slotreeve_simulator.plan import Call, CallKind
from slotreeve_simulator.recorded import Recording
from slotreeve_simulator.scenario import Scenario
from slotreeve_simulator.trace import Trace, Weight

MISTAKES = ("caf\udce9", "\ud800", "a\udfffb")
"""Texts with lone surrogates, as ``os.fsdecode`` makes them of bytes that are not UTF-8."""


class _Life:
    """One client process, from its start to its end."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.loses: Mapping[str, int] = {}  # by service, how many expired in the recording
        self.registrations: list[Registration] = []
        self.watchers: list[Watcher] = []
        self.configs: list[ConfigWatch] = []


class Clients:
    """The clients of one run, called ``client-1``, ..."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        cluster: ScenarioCluster,
        watch: ClientsWatch,
        configs: ConfigsWatch,
        trace: Trace,
    ) -> None:
        self._scenario, self._seed = scenario, seed
        self._cluster, self._watch, self._configs, self._trace = cluster, watch, configs, trace
        self._lives: dict[str, _Life] = {}
        self._reads: set[asyncio.Task[None]] = set()

    # --- start and end -----------------------------------------------------------------------------------------------

    def come_all(self) -> None:
        """Start every client of the scenario."""
        for number in range(self._scenario.nodes.clients):
            self.come(f"client-{number + 1}")

    def come(self, name: str) -> None:
        """Start a client process, which publishes and subscribes its share at once."""
        life = self._lives[name] = _Life(self._cluster.client(name=name, **self._scenario.nodes.client_options))
        if self._scenario.recorded is not None:
            self._come_as_recorded(name, life, self._scenario.recorded)
            return
        rng = random.Random(f"{self._seed}/workload/{name}/{self._cluster.lives[name]}")
        work, clients = self._scenario.workload, self._scenario.nodes.clients
        number = int(name.rpartition("-")[2]) - 1
        for _ in range(number, work.publishers, clients):
            self._publish(name, life, rng.randrange(work.services))
        for _ in range(number, work.subscriptions, clients):
            self._subscribe(name, life, rng.randrange(work.services))
        for key in CONFIG_KEYS if work.operator else ():
            self._watch_key(name, life, key)

    def _come_as_recorded(self, name: str, life: _Life, recording: Recording) -> None:
        number = int(name.rpartition("-")[2]) - 1
        if number < len(recording.clients):
            recorded = recording.clients[number]
            life.loses = recorded.loses
            for service, count in recorded.publishes.items():
                for _ in range(count):
                    self._publish(name, life, recording.services.index(service))
            for service in recording.services if recorded.subscribes_to_all else recorded.subscribes:
                self._subscribe(name, life, recording.services.index(service))

    def ended(self, name: str) -> None:
        """The process was killed or closed."""
        for registration in self._lives.pop(name).registrations:
            self._watch.ended(registration)

    @property
    def running(self) -> list[str]:
        """Names of the clients that run."""
        return sorted(self._lives)

    def change_one(self, name: str) -> None:
        """Let a client change one of its registrations; it makes one where it has none."""
        life = self._lives[name]
        if life.registrations:
            self._change(life, Call(0.0, 0, CallKind.REPUBLISH, 0))
        else:
            self._publish(name, life, 0)

    # --- calls -------------------------------------------------------------------------------------------------------

    def call(self, call: Call) -> None:
        """Make a call of a client, if it runs."""
        name = f"client-{call.client + 1}"
        life = self._lives.get(name)
        if life is None:
            return
        services = self._scenario.services
        self._trace.note(Weight.DETAIL, f"{name}: {call.kind} {call.pick}")
        match call.kind:
            case CallKind.PUBLISH:
                self._publish(name, life, call.pick % services)
            case CallKind.SUBSCRIBE:
                self._subscribe(name, life, call.pick % services)
                if life.configs:
                    self._watch_key(name, life, CONFIG_KEYS[call.pick % len(CONFIG_KEYS)])
            case CallKind.GET:
                self._spawn(self._get(name, life, self._scenario.service(call.pick % services)))
            case CallKind.MISTAKE:
                self._mistake(life.client, call.pick)
            case CallKind.UNSUBSCRIBE:
                if len(life.configs) > len(CONFIG_KEYS):
                    life.configs.pop(call.pick % len(life.configs)).unwatch()
                if life.watchers:
                    watcher = life.watchers.pop(call.pick % len(life.watchers))
                    if watcher.subscription is not None:
                        watcher.subscription.unsubscribe()
            case CallKind.REPUBLISH | CallKind.UNPUBLISH:
                if life.registrations:
                    self._change(life, call)

    def _publish(self, name: str, life: _Life, number: int) -> None:
        service = self._scenario.service(number)
        life.registrations.append(self._watch.register(name, service, lambda data: life.client.publish(service, data)))

    def _mistake(self, client: Client, pick: int) -> None:
        """Call with what no message can carry (I22)."""
        text = MISTAKES[pick % len(MISTAKES)]
        calls: tuple[Callable[[], object], ...] = (
            lambda: client.publish(text, "x"),
            lambda: client.publish(self._scenario.service(0), "x", zone=text),
            lambda: client.publish(self._scenario.service(0), text),
            lambda: client.subscribe(text),
            lambda: client.watch_config(text),
        )
        try:
            calls[pick // len(MISTAKES) % len(calls)]()
        except ModelError:
            self._trace.note(Weight.DETAIL, f"{text!r} is refused")
        else:
            self._watch.verdict.violate("I22", f"a client takes {text!r}, which no message can carry")

    def _subscribe(self, name: str, life: _Life, service: int) -> None:
        watcher = Watcher(self._watch, name, self._scenario.service(service))
        life.watchers.append(watcher)
        watcher.subscription = life.client.subscribe(watcher.service, watcher.changed)

    def _watch_key(self, name: str, life: _Life, key: str) -> None:
        life.configs.append(life.client.watch_config(key, lambda watch: self._configs.seen(name, watch)))

    def _change(self, life: _Life, call: Call) -> None:
        places: Sequence[int] = range(len(life.registrations))
        if call.service is not None:
            name = self._scenario.service(call.service)
            places = [place for place in places if life.registrations[place].service == name]
            if call.kind is CallKind.UNPUBLISH:
                # What expired in the recording was not unpublished: the symptom would be gone with it.
                places = places[life.loses.get(name, 0) :]
            if not places:
                return
        index = places[call.pick % len(places)]
        registration = life.registrations[index]
        if call.kind is CallKind.UNPUBLISH:
            self._watch.ended(registration)
            registration.publication.unpublish()
            del life.registrations[index]
        else:
            self._watch.publish_again(registration)

    async def _get(self, name: str, life: _Life, service: str) -> None:
        before = self._watch.stored(service)
        try:
            instances = await life.client.get(service)
        except (RequestTimeout, ClientError) as error:
            self._trace.note(Weight.DETAIL, f"{name} cannot read {service}: {type(error).__name__}")
        else:
            self._watch.answered(name, service, before, read(instances))

    def _spawn(self, coroutine: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine, name="read")
        self._reads.add(task)
        task.add_done_callback(self._reads.discard)

    def seen(self) -> dict[str, list[dict[int, int]]]:
        """What each subscription of each client shows now."""
        return {name: [watcher.seen for watcher in life.watchers] for name, life in self._lives.items()}

    # --- the end of a storm ------------------------------------------------------------------------------------------

    def unconverged(self) -> str | None:
        """Why the clients do not see what they must see; None if they do."""
        for name, life in self._lives.items():
            if life.client.state is not ClientState.CONNECTED:
                return f"{name} has no connection"
        for name, life in self._lives.items():
            for watcher in life.watchers:
                problem = self._watch.difference(self._watch.expected(watcher.service), watcher.seen)
                if problem is not None:
                    return f"{name}, subscribed to {watcher.service}, {problem}"
            problem = self._configs.difference(name, life.configs)
            if problem is not None:
                return problem
        for name, life in self._lives.items():
            for registration in life.registrations:
                if not registration.publication.is_acknowledged:
                    return f"{registration.payload} of {name} is not acknowledged"
        return None

    async def read_all(self) -> str | None:
        """Read every service once, each with some client. Returns what is wrong with an answer; None if nothing is."""
        names = sorted(self._lives)
        for number in range(self._scenario.services):
            name = names[number % len(names)]
            try:
                seen = read(await self._lives[name].client.get(self._scenario.service(number)))
            except (RequestTimeout, ClientError) as error:
                return f"{name} cannot read {self._scenario.service(number)}: {error}"
            problem = self._watch.difference(self._watch.expected(self._scenario.service(number)), seen)
            if problem is not None:
                return f"{name}, which reads {self._scenario.service(number)}, {problem}"
        return None
