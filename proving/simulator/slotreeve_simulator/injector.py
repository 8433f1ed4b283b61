"""The injector: it begins and ends the faults of the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Protocol

from slotreeve.errors import SlotreeveError, TransportError
from slotreeve_protocol.meta_messages import Stopping

from slotreeve_simulator.aims import Aims
from slotreeve_simulator.cluster import SLOW_FACTOR, ScenarioCluster
from slotreeve_simulator.disk_faults import fill_disk, slow_disk
from slotreeve_simulator.fault_kinds import ALONE, PARTITIONS, STORE_FAULTS, FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.flapping import again_and_again
from slotreeve_simulator.meta_faults import MetaFaults
from slotreeve_simulator.processor_faults import PROCESSOR_FAULTS, strike_processors
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.store_faults import strike_store
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict

START_ATTEMPTS = 40
START_AGAIN_SECONDS = 0.5
SLOW_CLIENT_FACTOR = 4.0
LONGEST_DETOUR_SECONDS = 2.0
ONE_WAY = frozenset({FaultKind.PARTITION_ONE_WAY, FaultKind.CUT_LINK_ONE_WAY, FaultKind.CUT_STREAM})


class ClientCalls(Protocol):
    """Ends and starts clients, or gateways."""

    def ended(self, name: str) -> None:
        """``name`` was killed or closed: what it registered as a client must end."""

    def come(self, name: str) -> None:
        """Start a new one in the place of ``name``."""


class Injector:
    """Begins and ends faults. A fault does nothing if another one of its kind has struck the same process.

    Attributes:
        aims: the faults that wait for a state of the cluster, and the count of those that struck.
    """

    def __init__(
        self,
        cluster: ScenarioCluster,
        clients: ClientCalls,
        gateways: ClientCalls,
        watch: ServersWatch,
        trace: Trace,
        verdict: RunVerdict,
        now: Callable[[], float],
    ) -> None:
        self._cluster, self._clients, self._gateways, self._watch = cluster, clients, gateways, watch
        self._trace, self._verdict, self._now = trace, verdict, now
        self._ends: dict[Fault, Callable[[], None]] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self._partitions: dict[Fault, bool] = {}
        self._absent: set[str] = set()
        self._still: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_wiped = False
        self._arrived = 0.0
        self._meta = MetaFaults(cluster, watch, trace, verdict)
        self._alone: asyncio.Task[None] | None = None
        self.aims = Aims(cluster, self._begin)

    # --- one fault ---------------------------------------------------------------------------------------------------

    def begin(self, fault: Fault) -> None:
        """Begin the fault, where it is aimed at a state of the cluster once that has come. It ends by itself."""
        self.aims.begin(fault)

    def _begin(self, fault: Fault) -> bool:
        end = self._strike(fault) if self._alone is None else None
        if end is None:
            self._trace.note(Weight.DETAIL, f"{fault}: not now")
            return False
        self._trace.note(Weight.FAULT, str(fault))
        self._ends[fault] = end
        self._watch.calm_since = None
        self._meta.keep()
        if self._alone is None:
            self._timers.append(asyncio.get_running_loop().call_later(fault.seconds, lambda: self._end(fault)))
        return True

    def _end(self, fault: Fault) -> None:
        end = self._ends.pop(fault, None)
        if end is not None:
            self._trace.note(Weight.FAULT, f"fault {fault.number} ends")
            # What was sent before may arrive so much later, and what is sent now arrives behind it.
            self._arrived = max(self._arrived, self._now() + self._cluster.longest_travel())
            end()
            if not self._ends:
                self._watch.calm_since = self._arrived

    async def mend(self) -> None:
        """End every fault now, and wait until all processes have started again and have their processors."""
        self.aims.stop()
        if self._alone is not None:
            await self._alone
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._is_wiped = False
        for fault in sorted(self._ends, key=lambda fault: fault.number):
            self._end(fault)
        while self._tasks:
            await asyncio.gather(*self._tasks)
        stalls = [processor.stalled_for() for processor in self._cluster.processors.values()]
        if stalled := max(stalls, default=0.0):
            await asyncio.sleep(stalled)

    def _strike(self, fault: Fault) -> Callable[[], None] | None:
        """Begin the fault. Returns the function that ends it; None if the fault is not possible now."""
        name = fault.first[0]
        match fault.kind:
            case kind if kind in PARTITIONS:
                return self._partition(fault)
            case FaultKind.SLOW:
                return self._slow(name, SLOW_FACTOR**fault.amount)
            case FaultKind.SLOW_CLIENT:
                return self._slow(name, SLOW_CLIENT_FACTOR**fault.amount)
            case FaultKind.SLOW_COPIES:
                both = (name, fault.others[0]), (fault.others[0], name)
                return self._detour(both, LONGEST_DETOUR_SECONDS * fault.amount)
            case FaultKind.SLOW_WAY:
                ways = [(name, other) for other in fault.others]
                return self._detour(ways, LONGEST_DETOUR_SECONDS * fault.amount)
            case FaultKind.CUT | FaultKind.BREAK_LINK:
                return _nothing if self._cluster.network.cut(name, fault.others[0]) else None
            case kind if kind in PROCESSOR_FAULTS:
                return strike_processors([p for n in fault.first if (p := self._cluster.processors.get(n))], fault)
            case kind if kind in ALONE:
                return self._begin_alone(fault)
            case FaultKind.CUT_CLIENT:
                return _nothing if self._cut_client(name) else None
            case FaultKind.FLAP_CLIENT:
                return again_and_again(lambda: self._cut_client(name), fault.amount)
            case FaultKind.FLAP_LINK:
                return again_and_again(lambda: self._cluster.network.cut(name, fault.others[0]), fault.amount)
            case FaultKind.ADD_DATA | FaultKind.ADD_SESSION:
                return self._add(name)
            case FaultKind.ADD_CLIENT:
                return self._add_client(name)
            case kind if kind in STORE_FAULTS:
                return strike_store(self._cluster.store, fault)
        if fault.kind is FaultKind.WIPE_META:
            return self._wipe(name)
        if not self._absent.isdisjoint(fault.first) or not self._run(fault.first):
            return None
        match fault.kind:
            case FaultKind.PAUSE | FaultKind.PAUSE_CLIENT | FaultKind.PAUSE_GATEWAY | FaultKind.FREEZE_SESSION:
                return self._pause(fault.first, self._cluster.freeze, self._cluster.thaw)
            case FaultKind.SUSPEND:
                return self._pause(fault.first, self._cluster.suspend, self._cluster.resume)
            case FaultKind.FULL_DISK:
                return fill_disk(self._cluster.disk(name))
            case FaultKind.SLOW_DISK:
                return slow_disk(self._cluster.disk(name), self._cluster.sync_seconds, fault.amount)
            case FaultKind.POWER_CUT:
                return self._crash(*fault.first, power_lost=True)
            case FaultKind.LOSE_MACHINE:
                self._cluster.network.lose(name)
                self._watch.machine_lost(name)
                return self._crash(name)
            case FaultKind.CRASH_CLIENT | FaultKind.CLOSE_CLIENT:
                return self._end_client(self._clients, name, fault.kind is FaultKind.CLOSE_CLIENT)
            case FaultKind.CRASH_ZONE:
                return self._crash_zone(fault.first)
            case FaultKind.CRASH_GATEWAY:
                return self._end_client(self._gateways, name, politely=False)
            case FaultKind.STOP_SERVER | FaultKind.STOP_SESSION:
                return self._stop(name, Stopping.FOR_GOOD if fault.amount < 0.5 else Stopping.FOR_A_RESTART)
            case FaultKind.CLOCK_JUMP:
                self._cluster.set_wall_clock(name, fault.amount)
        return self._crash(*fault.first)

    def _begin_alone(self, fault: Fault) -> Callable[[], None] | None:
        if self._ends or self._tasks or not self._meta.may_begin(fault):
            return None

        async def play() -> None:
            await self._meta.play(fault)
            self._alone = None
            self._end(fault)

        self._alone = self._spawn(str(fault), play())
        return _nothing

    # --- processes ---------------------------------------------------------------------------------------------------

    def _crash(self, *names: str, power_lost: bool = False) -> Callable[[], None]:
        for name in names:
            self._gone(name)
            self._cluster.kill(name, power_lost)

        def end() -> None:
            for name in names:
                self._start(name)

        return end

    def _crash_zone(self, names: Iterable[str]) -> Callable[[], None]:
        """All of these are killed at once, and start again together."""
        clients = [name for name in names if name in self._cluster.clients]
        ends = [self._crash(*(name for name in names if name not in clients))]
        for client in clients:
            end = self._end_client(self._clients, client, politely=False)
            assert end is not None, "only a client that leaves in order may be unable to"
            ends.append(end)

        def end_all() -> None:
            for end in ends:
                end()

        return end_all

    def _wipe(self, name: str) -> Callable[[], None] | None:
        """Wipe one meta server in each storm, and none while another is down: only a minority may lose its disks. One
        that has just crashed may lose its disk before it starts again, while the others elect a leader."""
        absent = {other for other in self._absent if other.startswith("meta-")}
        if self._is_wiped or absent - {name} or (absent and name in self._cluster.servers):
            return None
        self._is_wiped = True
        end = _nothing if absent else self._crash(name)
        self._meta.lose(name)
        return end

    def _stop(self, name: str, how: Stopping) -> Callable[[], None] | None:
        if name in self._still:
            return None
        self._gone(name)
        self._watch.leaving.add(name)
        stopping = self._spawn(f"stop {name}", self._cluster.stop(name, how))
        return lambda: self._start(name, stopping)

    def _gone(self, name: str) -> None:
        self._absent.add(name)
        self._still.discard(name)
        self._watch.forget(name)

    def _start(self, name: str, after: asyncio.Task[None] | None = None) -> None:
        async def start() -> None:
            if after is not None:
                await after
            disk = self._cluster.disk(name)
            if disk is not None:
                disk.failure = None  # its start has ended the disk's fault
            self._trace.note(Weight.FAULT, f"{name} starts")
            await self._start_as_a_supervisor_does(name)
            self._absent.discard(name)

        self._spawn(f"start {name}", start())

    async def _start_as_a_supervisor_does(self, name: str) -> None:
        """Start a meta server; try again while the store does not let it start."""
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                await self._cluster.start(name)
                return
            except SlotreeveError as error:
                if attempt == START_ATTEMPTS or self._cluster.store is None or not isinstance(error, TransportError):
                    self._verdict.violate("health", f"{name} cannot start again: {error.code} {error}")
                    return
            self._cluster.kill(name)
            await asyncio.sleep(START_AGAIN_SECONDS)

    def _add(self, name: str) -> Callable[[], None] | None:
        if name in self._cluster.servers or name in self._absent:
            return None
        self._absent.add(name)  # while it starts, no other fault adds it
        self._start(name)

        def end() -> None:
            if name in self._cluster.servers:
                self._watch.forget(name)
                self._cluster.kill(name)

        return end

    def _add_client(self, name: str) -> Callable[[], None] | None:
        if name in self._cluster.clients or name in self._absent:
            return None
        self._clients.come(name)
        return _nothing

    def _run(self, names: Iterable[str]) -> bool:
        """Whether all of these run: what was not added, because that action was left out, cannot end."""
        return all(name in self._cluster.servers or name in self._cluster.clients for name in names)

    def _pause(
        self, names: Iterable[str], pause: Callable[[str], None], go_on: Callable[[str], None]
    ) -> Callable[[], None] | None:
        lives = {name: self._cluster.lives[name] for name in names}
        if not self._still.isdisjoint(lives):
            return None
        self._still.update(lives)
        for name in lives:
            pause(name)

        def end() -> None:
            for name, life in lives.items():
                if self._cluster.lives[name] == life:
                    self._still.discard(name)
                    go_on(name)

        return end

    def _end_client(self, kind: ClientCalls, name: str, politely: bool) -> Callable[[], None] | None:
        if politely and name in self._still:
            return None
        self._absent.add(name)
        self._still.discard(name)
        kind.ended(name)
        if politely:
            closing = self._spawn(f"close {name}", self._cluster.clients[name].close())
        else:
            self._cluster.kill(name)
            closing = None

        async def come() -> None:
            if closing is not None:
                await closing
                self._cluster.kill(name)
            kind.come(name)
            self._absent.discard(name)

        def end() -> None:
            self._spawn(f"start {name}", come())

        return end

    # --- network -----------------------------------------------------------------------------------------------------

    def _partition(self, fault: Fault) -> Callable[[], None]:
        self._partitions[fault] = fault.kind in ONE_WAY
        self._part(fault)
        if fault.kind is FaultKind.CUT_OFF_CLIENT:
            self._cut_client(fault.first[0])

        def end() -> None:
            del self._partitions[fault]
            if fault.kind is FaultKind.RESET_LINK:
                self._cluster.network.cut(fault.first[0], fault.others[0])
            # The network only heals all partitions at once. The remaining ones are made again before anything passes.
            self._cluster.network.heal()
            for other in self._partitions:
                self._part(other)

        return end

    def _part(self, fault: Fault) -> None:
        others = fault.others or tuple(name for name in self._cluster.lives if name not in fault.first)
        self._cluster.network.partition(fault.first, others, one_way=self._partitions[fault])

    def _slow(self, name: str, factor: float) -> Callable[[], None]:
        before = self._cluster.slowness.get(name, 1.0)
        self._cluster.slowness[name] = max(before, factor)

        def end() -> None:
            self._cluster.slowness.pop(name, None)

        return end

    def _detour(self, ways: Collection[tuple[str, str]], seconds: float) -> Callable[[], None] | None:
        detours = self._cluster.detours
        if not detours.keys().isdisjoint(ways):
            return None
        detours.update(dict.fromkeys(ways, seconds))

        def end() -> None:
            for way in ways:
                del detours[way]

        return end

    def _cut_client(self, name: str) -> int:
        network = self._cluster.network
        return sum(network.cut(name, other) for other in dict.fromkeys(network.connections(name)))

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _spawn(self, name: str, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _nothing() -> None:
    """Do nothing: an instantaneous fault has ended already."""
