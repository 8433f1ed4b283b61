"""Random faults of an ensemble, one after the other and several at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from slotreeve.errors import SlotreeveError

from slotreeve_conformance.election_backend import Store, UnreliableStore, Wires
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.lossy_storage import LossyStorage

SYNC_SECONDS = 0.001
SLOWEST_SYNC_SECONDS = 0.5
LONGEST_LAG_SECONDS = 0.3
START_ATTEMPTS = 50


class EnsembleFaults:
    """Single faults of an ensemble."""

    def __init__(self, ensemble: Ensemble, store: Store | None, rng: random.Random, unit_seconds: float) -> None:
        """Every node that starts from now on has an empty disk, which may lose what it has not synced.

        ``unit_seconds``: what a fault lasts about; that of a change of leader is right.
        """
        self._ensemble, self._store, self._rng, self._unit = ensemble, store, rng, unit_seconds
        self._frozen: set[str] = set()
        self._ends: list[Callable[[], None]] = []
        for name in ensemble.names:
            self._give_disk(name)

    def awake(self, name: str) -> bool:
        """Whether the node runs and is not frozen."""
        return name in self._ensemble.running and name not in self._frozen

    # --- nodes -------------------------------------------------------------------------------------------------------

    def _stopped(self) -> list[str]:
        return [name for name in self._ensemble.names if name not in self._ensemble.running]

    def _picked(self) -> str | None:
        awake = [name for name in self._ensemble.running if self.awake(name)]
        return self._rng.choice(awake) if awake else None

    async def _kill_leader(self) -> None:
        for name in self._ensemble.leading():
            if self.awake(name):
                self._ensemble.kill(name)

    async def _kill(self) -> None:
        if (name := self._picked()) is not None:
            self._ensemble.kill(name, power_lost=self._rng.random() < 0.5)

    async def _kill_all(self) -> None:
        """A power cut: all machines go down at once, and most nodes start again at once."""
        victims = [name for name in self._ensemble.running if self.awake(name)]
        for name in victims:
            self._ensemble.kill(name, power_lost=True)
        for name in victims:
            if self._rng.random() < 0.8:
                await self._begin(name)

    async def _start(self) -> None:
        if stopped := self._stopped():
            await self._begin(self._rng.choice(stopped))

    async def _begin(self, name: str) -> None:
        self._ensemble.storages[name].failure = None
        try:
            async with asyncio.timeout(5 * self._unit):
                await self._ensemble.start(name)
        except (SlotreeveError, TimeoutError):
            self._ensemble.kill(name)  # as a process that could not start, or that waits for its store

    async def _freeze(self) -> None:
        if (name := self._picked()) is not None:
            self._frozen.add(name)
            self._ensemble.freeze(name)

    async def _thaw(self) -> None:
        if self._frozen:
            name = self._rng.choice(sorted(self._frozen))
            self._frozen.discard(name)
            self._ensemble.thaw(name)

    async def _resign(self) -> None:
        for name in self._ensemble.leading():
            if self.awake(name):
                try:
                    async with asyncio.timeout(2 * self._unit):
                        await self._ensemble.election(name).resign()
                except TimeoutError:
                    pass  # it resigns when the fault that holds it up is over

    # --- network, disks, store ---------------------------------------------------------------------------------------

    async def _part(self) -> None:
        names = self._ensemble.names
        group = {name for name in names if self._rng.random() < 0.5}
        self._ensemble.network.partition(group, set(names) - group, one_way=self._rng.random() < 0.5)

    async def _heal(self) -> None:
        self._ensemble.network.heal()

    async def _cut(self) -> None:
        if len(self._ensemble.names) > 1:
            self._ensemble.network.cut(*self._rng.sample(self._ensemble.names, 2))

    async def _slow_link(self) -> None:
        network = self._ensemble.network
        if isinstance(network, Wires) and len(self._ensemble.names) > 1:
            source, target = self._rng.sample(self._ensemble.names, 2)
            network.lag_seconds[source, target] = self._rng.uniform(0.0, LONGEST_LAG_SECONDS)
            self._ends.append(lambda: setattr(network, "lag_seconds", {}))

    async def _slow_disk(self) -> None:
        storage = self._ensemble.storages[self._rng.choice(self._ensemble.names)]
        storage.sync_seconds = self._rng.choice([0.001, 0.01, 0.1, SLOWEST_SYNC_SECONDS])
        self._ends.append(lambda: setattr(storage, "sync_seconds", SYNC_SECONDS))

    async def _fill_disk(self) -> None:
        storage = self._ensemble.storages[self._rng.choice(self._ensemble.names)]
        storage.failure = "No space left on device"
        self._ends.append(lambda: setattr(storage, "failure", None))

    async def _trouble_store(self) -> None:
        if isinstance(self._store, UnreliableStore):
            self._ends.append(self._store.trouble(self._rng))

    async def _end_one(self) -> None:
        if self._ends:
            self._ends.pop(self._rng.randrange(len(self._ends)))()

    def _isolate(self, leader: str) -> list[str]:
        """Let nothing pass from the leader to the others, nor back, mostly; returns the others.

        Their connections end at both ends, or at the others' alone, or stay.
        """
        others = [name for name in self._ensemble.names if name != leader]
        network, how = self._ensemble.network, self._rng.choice(["cut", "drop", "drop", "stay", "stay"])
        network.partition([leader], others, one_way=how == "stay" and self._rng.random() < 0.6)
        for name in others:
            if how == "cut":
                network.cut(leader, name)
            elif how == "drop":
                network.drop(name, leader)
        return others

    def _give_disk(self, name: str) -> None:
        storage = self._ensemble.storages[name] = LossyStorage(name, random.Random(self._rng.random()))
        storage.sync_seconds = SYNC_SECONDS


class ElectionStorm(EnsembleFaults):
    """Kills, pauses, cuts and delays; disks that are slow or full; troubles of the store.

    The network carries streams, as TCP does: a packet is lost with its connection (``cut``) or waits (``partition``);
    it never comes twice. Links are parted and slowed down for each direction alone.
    """

    def __init__(self, ensemble: Ensemble, store: Store | None, rng: random.Random, unit_seconds: float) -> None:
        """See :class:`EnsembleFaults`."""
        super().__init__(ensemble, store, rng, unit_seconds)
        self._has_lost_disk = False
        self._faults: Sequence[Callable[[], Awaitable[None]]] = (
            self._kill_leader,
            self._kill,
            self._kill_all,
            self._part_with_leader,
            self._part_with_leader,
            self._part_with_slow_leader,
            self._part_with_slow_leader,
            self._cut_power_of_slow_disks,
            self._cut_power_of_slow_disks,
            self._lose_disk,
            self._start,
            self._start,
            self._freeze,
            self._thaw,
            self._part,
            self._heal,
            self._heal,
            self._cut,
            self._slow_link,
            self._slow_disk,
            self._fill_disk,
            self._resign,
            self._trouble_store,
            self._trouble_store,
            self._end_one,
        )

    async def rage(self, faults: int) -> None:
        """Begin so many faults."""
        for _ in range(faults):
            await self._rng.choice(self._faults)()
            await asyncio.sleep(self._unit * self._rng.choice([0.0, 0.01, 0.1, 0.3, 0.6, 1.2]))

    async def end(self) -> None:
        """End every fault, and start every node that does not run."""
        await self._heal()
        while self._ends:
            self._ends.pop()()
        for name in sorted(self._frozen):
            self._ensemble.thaw(name)
        self._frozen.clear()
        self._has_lost_disk = False
        for _ in range(START_ATTEMPTS):
            if not self._stopped():
                return
            await self._start()
        raise AssertionError(f"{self._stopped()} could not be started again")

    # --- several faults at the moment at which they hurt most --------------------------------------------------------

    async def _part_with_leader(self) -> None:
        """Nothing passes from a leader that lives on to the others, nor back, mostly.

        One of them may have lost it earlier, and some are killed and started again at once.
        """
        for leader in self._ensemble.leading():
            if self._rng.random() < 0.4:
                first = self._rng.choice([name for name in self._ensemble.names if name != leader] or [leader])
                self._ensemble.network.partition([leader], [first])
                await asyncio.sleep(self._unit * self._rng.uniform(0.5, 1.5))
            others = self._isolate(leader)
            victims = [name for name in others if self.awake(name)] if self._rng.random() < 0.6 else []
            for name in victims:
                self._ensemble.kill(name)
            for name in victims:
                await self._begin(name)
            await asyncio.sleep(self._unit * self._rng.uniform(0.2, 0.8))

    async def _part_with_slow_leader(self) -> None:
        """The same, after packets to and from the leader were slow for a while, so that many are on their way."""
        network, leading = self._ensemble.network, self._ensemble.leading()
        if isinstance(network, Wires) and leading:
            inwards, outwards = self._rng.sample([0.0, 0.1, LONGEST_LAG_SECONDS], 2)
            for name in self._ensemble.names:
                network.lag_seconds[name, leading[0]] = inwards
                network.lag_seconds[leading[0], name] = outwards
            await asyncio.sleep(self._unit * self._rng.uniform(0.5, 1.5))
            network.lag_seconds.clear()
            if self._rng.random() < 0.5:
                network.partition(leading, set(self._ensemble.names) - set(leading), one_way=True)
                await asyncio.sleep(self._unit)
                return
        await self._part_with_leader()

    async def _cut_power_of_slow_disks(self) -> None:
        """All machines go down while some disks are at work. The leader starts again later than the others."""
        leading = self._ensemble.leading()
        slow = self._rng.choice([0.02, 0.1, SLOWEST_SYNC_SECONDS])
        storages = list(self._ensemble.storages.values())
        for name, storage in self._ensemble.storages.items():
            storage.sync_seconds = slow if name not in leading and self._rng.random() < 0.8 else SYNC_SECONDS
        await asyncio.sleep(self._unit * self._rng.uniform(0.2, 1.0))
        victims = [name for name in self._ensemble.running if self.awake(name)]
        for name in victims:
            self._ensemble.kill(name, power_lost=True)
        for storage in storages:
            storage.sync_seconds = SYNC_SECONDS
        for name in victims:
            if name not in leading:
                await self._begin(name)

    async def _lose_disk(self) -> None:
        """A follower loses its disk, and the leader is cut off, while another follower is behind.

        Once only until :meth:`end`: no election survives the loss of more disks.
        """
        leading = [name for name in self._ensemble.leading() if self.awake(name)]
        others = [name for name in self._ensemble.running if self.awake(name) and name not in leading]
        if self._has_lost_disk or not leading or len(others) < 2:
            return
        self._has_lost_disk = True
        victim, behind = self._rng.sample(others, 2)
        self._ensemble.network.partition([behind], leading)
        await asyncio.sleep(self._unit * self._rng.uniform(0.1, 0.5))
        if victim in self._ensemble.running:
            self._ensemble.kill(victim)
        self._give_disk(victim)
        for name in leading:
            if name in self._ensemble.running:
                self._isolate(name)
        await self._begin(victim)
