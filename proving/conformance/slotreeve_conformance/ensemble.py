"""An ensemble: several nodes of one election in one process, with faults and checks of invariants.

Every node has its own clock, endpoint and storage, so it can be killed, frozen, partitioned and started again. I1, I2
and I3 are checked whenever a node reports leadership and at every committed change, and I2 also at short intervals.
:meth:`Ensemble.check` checks the rest at the end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from slotreeve.clock import Clock, Timer
from slotreeve.ports import Context, Election, Leadership, Transport, Versioned
from slotreeve_machines.storage import MemoryStorage

from slotreeve_conformance.virtual_time import VirtualClock

CLUSTER = "ensemble"
LEASE_SAMPLE_SECONDS = 0.004
POLL_SECONDS = 0.002
REAL_PATIENCE = 5.0
"""On a real clock a bound is so many times as long: the machine may be busy, and the database on it, too. On virtual
time bounds are exact."""
ROUNDING_SECONDS = 1e-9
"""A timer of a skewed clock runs this much late. If a rounding error made it run early, virtual time would not
advance."""
_life: ContextVar[Life | None] = ContextVar("life", default=None)

Build = Callable[[Context], Election]


class EnsembleNetwork(Protocol):
    """The network of the nodes' transports, with its faults. Nodes and endpoints have the same names.

    The memory transport's network implements it. For an election without a transport it may do nothing.
    """

    def transport(self, clock: Clock, name: str) -> Transport:
        """A new endpoint for a start of a node."""

    def kill(self, name: str) -> None:
        """Kill the endpoint's process; its peers see their connections end."""

    def freeze(self, name: str) -> None:
        """Stop the endpoint's process; its connections stay open."""

    def thaw(self, name: str) -> None:
        """End :meth:`freeze` and deliver the waiting packets."""

    def partition(self, sources: Iterable[str], targets: Iterable[str], *, one_way: bool = False) -> None:
        """Let nothing pass from ``sources`` to ``targets`` from now on (nor back, unless ``one_way``). No handler is
        called."""

    def heal(self) -> None:
        """End every partition and deliver the waiting packets."""

    def cut(self, first: str, second: str) -> int:
        """End every connection between two endpoints, at both ends at once. Returns the number of connections."""

    def drop(self, name: str, peer: str) -> int:
        """End every connection between two endpoints at the end of ``name`` alone; the peer sees that once packets pass
        again. Returns the number of connections."""


@dataclass(frozen=True)
class Skew:
    """The difference of one node's clock from the common clock.

    Attributes:
        offset_seconds: offset of its monotonic clock, which no other node can compare with its own.
        rate: seconds that it shows for each second of the common clock.
        wall_ms: offset of its wall clock, on which no decision may depend.
    """

    offset_seconds: float = 0.0
    rate: float = 1.0
    wall_ms: int = 0


class _NodeTimer:
    """A timer that stands still while its machine is suspended. ``slept``: how long that had been when it was set."""

    timer: Timer

    def __init__(self, slept: float) -> None:
        self.slept = slept

    def cancel(self) -> None:
        self.timer.cancel()


class NodeClock:
    """The clock of one node. The timers of a frozen node wait until it is thawed; those of a killed node never run;
    those of a suspended one stand still, while its clock goes on."""

    def __init__(self, base: Clock, skew: Skew) -> None:
        self._base, self._skew = base, skew
        self._frozen = self._dead = False
        self._held: list[Callable[[], None]] = []
        self._slept = 0.0
        self._suspended_at: float | None = None
        # The timers that were due in this suspension, with the time from its beginning to their end.
        self._overslept: list[tuple[float, _NodeTimer, Callable[[], None]]] = []

    def now(self) -> float:
        """Seconds of the node's monotonic clock. It goes on while the node is frozen or suspended."""
        return self._skew.offset_seconds + self._skew.rate * self._base.now()

    def reached(self, at: float) -> bool:
        """See :class:`slotreeve.clock.Clock`."""
        return self.now() >= at

    def wall_ms(self) -> int:
        """Milliseconds of the node's wall clock."""
        return self._base.wall_ms() + self._skew.wall_ms

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """See :class:`slotreeve.clock.Clock`."""
        timer = _NodeTimer(self._slept)
        self._set(timer, seconds / self._skew.rate + ROUNDING_SECONDS, action)
        return timer

    def call_soon(self, action: Callable[[], None]) -> None:
        """See :class:`slotreeve.clock.Clock`."""
        self._base.call_soon(lambda: self._run(action))

    async def sleep(self, seconds: float) -> None:
        """See :class:`slotreeve.clock.Clock`."""
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def freeze(self) -> None:
        """Hold every timer."""
        self._frozen = True

    def suspend(self) -> None:
        """The machine is suspended: the clock goes on, the timers stand still."""
        self._suspended_at = self._base.now()
        self.freeze()

    def resume(self) -> None:
        """The machine goes on: each timer is as far from its end as it was."""
        if self._suspended_at is None:
            return
        self._slept += self._base.now() - self._suspended_at
        self._suspended_at = None
        overslept, self._overslept = self._overslept, []
        for left, timer, action in overslept:
            timer.slept = self._slept
            self._set(timer, left, action)
        self.thaw()

    def thaw(self) -> None:
        """Run the held timers and go on."""
        self._frozen = False
        held, self._held = self._held, []
        for action in held:
            self._run(action)

    def die(self) -> None:
        """Run no timer any more."""
        self._dead = True

    def _set(self, timer: _NodeTimer, seconds: float, action: Callable[[], None]) -> None:
        timer.timer = self._base.call_later(seconds, lambda: self._due(timer, action))

    def _due(self, timer: _NodeTimer, action: Callable[[], None]) -> None:
        if self._suspended_at is not None:
            self._overslept.append((self._base.now() - self._suspended_at, timer, action))
        elif timer.slept < self._slept:
            left, timer.slept = self._slept - timer.slept, self._slept
            self._set(timer, left, action)
        else:
            self._run(action)

    def _run(self, action: Callable[[], None]) -> None:
        if self._frozen:
            self._held.append(action)
        elif not self._dead:
            action()


@dataclass
class Life:
    """One run of a node, from its start to its end.

    Attributes:
        reports: every leadership that it reported, in order.
    """

    name: str
    number: int
    clock: NodeClock
    election: Election
    reports: list[Leadership] = field(default_factory=list)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)


class Ensemble:
    """The nodes of one cluster. Use it as an asynchronous context manager, on one event loop.

    Attributes:
        network: partitions and cuts by node name.
        storages: storages by node name; they stay when a node ends.
        acknowledged: the writes that were acknowledged: key -> version -> value.
        skews: clock skews by node name, from the node's next start on.
        samples: number of checks whether two nodes hold a lease at once.
        when_leading: called with the name of a node whenever it begins to lead, before anything that it sends then.
    """

    def __init__(
        self,
        build: Build,
        network: EnsembleNetwork,
        names: Iterable[str],
        clock: Clock,
        rng: random.Random,
        died: Callable[[str], None] = lambda _name: None,
    ) -> None:
        """``died`` is called with the name of a killed node, to end what it has outside the event loop."""
        self._build, self._clock, self._rng, self._died = build, clock, rng, died
        self._patience = 1.0 if isinstance(clock, VirtualClock) else REAL_PATIENCE
        self.network = network
        self.names = sorted(names)
        self.storages = {name: MemoryStorage(name) for name in self.names}
        self.acknowledged: dict[str, dict[int, bytes]] = {}
        self.skews: dict[str, Skew] = {}
        self.samples = 0
        self.when_leading: Callable[[str], None] = lambda _name: None
        self._members = {name: f"{name}:7712" for name in self.names}
        self._lives: dict[str, Life] = {}
        self._count = 0
        self._leaders: dict[int, tuple[str, int]] = {}
        self._committed: dict[tuple[str, int], Versioned] = {}
        self._violations: list[str] = []

    async def __aenter__(self) -> Ensemble:
        """The ensemble; no node is started."""
        loop = asyncio.get_running_loop()
        loop.set_task_factory(_remembering_task)
        self._sampler = loop.create_task(self._sample_leases())
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Kill every node."""
        self._sampler.cancel()
        for name in list(self._lives):
            self.kill(name)

    # --- faults of nodes ---------------------------------------------------------------------------------------------

    async def start(self, *names: str, observe_only: bool = False) -> None:
        """Start these nodes (all if none is named), with their storages."""
        for name in names or self.names:
            clock = NodeClock(self._clock, self.skews.get(name, Skew()))
            self.storages.setdefault(name, MemoryStorage(name))
            transport = self.network.transport(clock, name)
            rng = random.Random(self._rng.getrandbits(64))
            open_storage = partial(_opened, self.storages, name)
            context = Context(CLUSTER, 256, clock, rng, name, self._members, transport, open_storage, observe_only)
            self._count += 1
            life = Life(name, self._count, clock, self._build(context))
            self._lives[name] = life
            life.election.state.watch(self._check_change)
            token = _life.set(life)
            try:
                await life.election.start(partial(self._reported, life))
            finally:
                _life.reset(token)

    async def begin(self) -> None:
        """Let all nodes elect their first leader together, and kill them: some elections do not begin without one."""
        await self.start()
        await self.agreed()
        for name in self.names:
            self.kill(name)

    def kill(self, name: str, power_lost: bool = False) -> None:
        """Kill the node's process (SIGKILL), or let its machine lose its power. Its storage keeps what was durable."""
        life = self._lives.pop(name)
        life.clock.die()
        self.network.kill(name)
        for task in life.tasks:
            task.cancel()
        self.storages[name].crash(power_lost)
        self._died(name)

    async def stop(self, name: str) -> None:
        """Stop the node in an orderly way."""
        await self._lives[name].election.stop()
        self.kill(name)

    def freeze(self, name: str) -> None:
        """Stop the process (SIGSTOP). Its connections stay open."""
        self._lives[name].clock.freeze()
        self.network.freeze(name)

    def thaw(self, name: str) -> None:
        """Let the process go on (SIGCONT)."""
        self._lives[name].clock.thaw()
        self.network.thaw(name)

    def suspend(self, name: str) -> None:
        """Suspend the node's machine: its clock goes on, its timers stand still, its connections stay open."""
        self._lives[name].clock.suspend()
        self.network.freeze(name)

    def resume(self, name: str) -> None:
        """Let the node's machine go on."""
        self._lives[name].clock.resume()
        self.network.thaw(name)

    # --- state of nodes ----------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[str]:
        """Names of the running nodes, frozen ones included."""
        return sorted(self._lives)

    def election(self, name: str) -> Election:
        """The node's election."""
        return self._lives[name].election

    def now(self, name: str) -> float:
        """The time of the node's monotonic clock."""
        return self._lives[name].clock.now()

    def reports(self, name: str) -> list[Leadership]:
        """Every leadership that the node has reported since its start."""
        return self._lives[name].reports

    def leading(self) -> list[str]:
        """The nodes that lead with a valid lease now."""
        found = []
        for name, life in sorted(self._lives.items()):
            leadership = life.election.leadership()
            if leadership.leading and leadership.valid_until > life.clock.now():
                found.append(name)
        return found

    async def leader(self, *, among: Iterable[str] = (), within_seconds: float = 10.0) -> str:
        """Wait until a node leads (of ``among``, if given); return its name."""
        wanted = set(among) or set(self.names)
        deadline = self._clock.now() + self._patience * within_seconds
        while self._clock.now() < deadline:
            found = [name for name in self.leading() if name in wanted]
            if found:
                return found[0]
            await self._clock.sleep(POLL_SECONDS)
        raise AssertionError(f"none of {sorted(wanted)} leads after {within_seconds:g} s: {self._views()}")

    async def until_nobody_leads(self, within_seconds: float) -> float:
        """Wait until no node holds a valid lease. Returns the seconds that it took."""
        began = self._clock.now()
        while self.leading():
            if self._clock.now() - began > self._patience * within_seconds:
                raise AssertionError(f"a node still leads after {within_seconds:g} s: {self._views()}")
            await self._clock.sleep(POLL_SECONDS)
        return self._clock.now() - began

    async def agreed(self, *, among: Iterable[str] = (), within_seconds: float = 10.0) -> str:
        """Wait until every node (of ``among``, if given) has the same leader and term; return the leader."""
        deadline = self._clock.now() + self._patience * within_seconds
        while self._clock.now() < deadline:
            views = [self.election(name).leadership() for name in (list(among) or self.running)]
            known = {(view.leader, view.term) for view in views}
            if len(known) == 1 and views[0].leader is not None and self.leading():
                return views[0].leader
            await self._clock.sleep(POLL_SECONDS)
        raise AssertionError(f"no agreement after {within_seconds:g} s: {self._views()}")

    async def write(self, name: str, key: str, value: bytes, expected_version: int | None = None) -> int:
        """Write through the node under its term, and record the acknowledged version."""
        term = self.election(name).leadership().term
        version = await self.election(name).state.write(key, value, expected_version, term)
        known = self.acknowledged.setdefault(key, {})
        if version in known:
            self._violations.append(f"I3: version {version} of {key!r} was acknowledged to two writers")
        known[version] = value
        return version

    def give_up(self, key: str) -> None:
        """What was acknowledged for the key may be lost: an operator has accepted that."""
        self.acknowledged.pop(key, None)

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError if an invariant was broken at any time or the leader lacks an acknowledged write."""
        for name in self.leading():
            state = self.election(name).state
            for key, versions in self.acknowledged.items():
                held = state.read(key)
                newest = max(versions)
                if held is None or held.version < newest:
                    self._violations.append(f"I3: {name} leads without version {newest} of {key!r}")
                elif held.version in versions and versions[held.version] != held.value:
                    self._violations.append(f"I3: {name} holds another version {held.version} of {key!r}")
        assert not self._violations, "; ".join(self._violations)

    def _reported(self, life: Life, leadership: Leadership) -> None:
        if life.reports and leadership.term < life.reports[-1].term:
            self._violations.append(f"I1: {life.name} went from term {life.reports[-1].term} to {leadership.term}")
        begins = leadership.leading and not (life.reports and life.reports[-1].leading)
        life.reports.append(leadership)
        if leadership.leading:
            first = self._leaders.setdefault(leadership.term, (life.name, life.number))
            if first != (life.name, life.number):
                self._violations.append(f"I1: {first[0]} and {life.name} both led in term {leadership.term}")
            if leadership.term < max(self._leaders):
                self._violations.append(f"I1: {life.name} led in term {leadership.term} after a higher one")
        self._check_leases()
        if begins:
            self.when_leading(life.name)

    def _check_leases(self) -> None:
        self.samples += 1
        if len(leaders := self.leading()) > 1:
            self._violations.append(f"I2: {' and '.join(leaders)} hold leases at once")

    def _check_change(self, key: str, held: Versioned) -> None:
        known = self._committed.setdefault((key, held.version), held)
        if known != held:
            self._violations.append(f"I3: version {held.version} of {key!r} is {known} here and {held} there")

    async def _sample_leases(self) -> None:
        while True:
            self._check_leases()
            await self._clock.sleep(LEASE_SAMPLE_SECONDS)

    def _views(self) -> str:
        return "; ".join(f"{name}: {life.election.leadership()}" for name, life in sorted(self._lives.items()))


def _opened(storages: Mapping[str, MemoryStorage], name: str, _directory: str) -> MemoryStorage:
    return storages[name].open()


def _remembering_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any]
) -> asyncio.Task[Any]:
    """A task that ends with the node that made it."""
    task = asyncio.Task(coroutine, loop=loop)
    life = _life.get()
    if life is not None:
        life.tasks.append(task)
    return task
