"""How the election suite builds the election under test: on which kind of time, network and store."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from slotreeve.catalogue import Catalogue, Listed
from slotreeve.clock import Clock, MachineClock
from slotreeve.offers import Options, Port
from slotreeve.ports import Context, Election, Transport
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from slotreeve_conformance import virtual_time
from slotreeve_conformance.ensemble import EnsembleNetwork
from slotreeve_conformance.virtual_time import VirtualClock

LONGEST_DELAY_SECONDS = 0.004
DATA_DIR = "data_dir"


class Store(Protocol):
    """An external service that holds the election's state, such as a database. Each scenario gets a new, empty one."""

    async def stop(self) -> None:
        """Begin an outage: connections end or hang, new ones are refused. Acknowledged writes are durable."""

    async def start(self) -> None:
        """End the outage; return when the service works again."""

    async def close(self) -> None:
        """The scenario has ended: remove the service."""


@runtime_checkable
class RestorableStore(Store, Protocol):
    """A store that can be set back to an older copy while nodes use it."""

    async def back_up(self) -> Callable[[], Coroutine[Any, Any, None]]:
        """Keep a copy of what is stored; the function that is returned sets the store back to it."""

    async def accept(self) -> None:
        """Do as an operator who accepts the store as it is now."""


@runtime_checkable
class UnreliableStore(Store, Protocol):
    """A store that can have all kinds of troubles while nodes use it."""

    def trouble(self, rng: random.Random) -> Callable[[], None]:
        """Begin a random trouble: statements that are slow, lost or refused, answers that are lost, a COMMIT that
        stalls, connections that end. The function that is returned ends it."""


class Wires(MemoryNetwork):
    """The memory network. Each start of a node gets a new endpoint; packets take up to four milliseconds.

    Attributes:
        lag_seconds: how much longer packets take, by (from, to) node.
    """

    def __init__(self) -> None:
        super().__init__()
        rng = random.Random(0)
        self.lag_seconds: dict[tuple[str, str], float] = {}
        self.delay_seconds = lambda source, target: (
            rng.uniform(0.0, LONGEST_DELAY_SECONDS) + self.lag_seconds.get((source, target), 0.0)
        )

    def transport(self, clock: Clock, name: str) -> Transport:
        """A new endpoint."""
        return MemoryTransport(clock, name, self)


class ElectionBackend:
    """The election under test. Each scenario makes a new instance. Subclass it and override what does not fit.

    Attributes:
        name: its name in reports.
        realtime: the election waits for something outside the process (a database), so scenarios run on real time.
        fail_over_seconds: longest time until a new leader leads after the old one was killed or frozen.
        hand_over_seconds: the same after the old one resigned or stopped.
        outage_seconds: longest time until a leader stops leading after an outage of its store began.
        settle_seconds: longest time until followers hold what the leader has committed.
        rivals, rounds: number of nodes and of changes of leader in the long contest.
        storms, first_storm: number of runs of clients that write and read at once under faults, and the first one's
            seed.
        drift: largest difference in speed between two nodes' clocks, as a share.
    """

    name = "election"
    realtime = False
    fail_over_seconds = 2.0
    hand_over_seconds = 0.5
    outage_seconds = 2.0
    settle_seconds = 0.5
    rivals = 20
    rounds = 50
    storms = 4
    first_storm = 0
    drift = 0.01

    def expect_load(self) -> None:
        """The scenario will write much at once, and its leader must stay: take a lease that outlasts what such work
        delays on real time, such as one late sync of a disk. Called before :meth:`open_store`."""

    def build(self, context: Context) -> Election:
        """The election of one node. Called after :meth:`open_store`, at each start of each node."""
        raise NotImplementedError

    def network(self) -> EnsembleNetwork:
        """The network of the nodes' transports, on the running event loop."""
        return Wires()

    async def open_store(self) -> Store | None:
        """The external service of the election, new and empty; None if it has none (scenarios with outages are
        skipped)."""
        return None

    def died(self, node: str) -> None:
        """The node was killed: end what it has outside the event loop, such as database connections, as the end of a
        process would."""

    def clock(self) -> Clock:
        """The clock of the run."""
        return MachineClock() if self.realtime else VirtualClock()

    def run(self, main: Callable[[random.Random], Coroutine[Any, Any, None]], seed: int) -> None:
        """Run a scenario to its end on a new event loop."""
        if self.realtime:
            asyncio.run(main(random.Random(seed)))
        else:
            virtual_time.run(main, seed)


class InstalledBackend(ElectionBackend):
    """An installed election, by its name and options as in a configuration.

    If its options have a ``data_dir`` that is not set, each node gets a storage in memory.
    """

    options: Mapping[str, object] = MappingProxyType({})

    def build(self, context: Context) -> Election:
        """Build it as a server does. Raises PluginError."""
        entry, options = self.check(self.name, self.options)
        built = _catalogue().build(entry, options, context)
        assert isinstance(built, Election)
        return built

    @staticmethod
    def check(name: str, options: Mapping[str, object]) -> tuple[Listed, Options]:
        """The offer of that name, and its validated options. Raises PluginError."""
        entry = _catalogue().find(Port.ELECTION, name)
        directory = {DATA_DIR: "state"} if DATA_DIR in entry.offer.options.model_fields else {}
        return entry, _catalogue().options(entry, {**directory, **options})


@functools.cache
def _catalogue() -> Catalogue:
    return Catalogue.load()
