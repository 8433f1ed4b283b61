"""How the election suite gets at an election: how one is built, on what kind of time, and over which store."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from slotreeve.catalogue import Catalogue, Listed
from slotreeve.clock import Clock, LoopClock
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
    """A service of its own that an election keeps its state in, a database say; new and empty for each scenario."""

    async def stop(self) -> None:
        """An outage: connections to it end or hang, new ones are refused. What it acknowledged is durable."""

    async def start(self) -> None:
        """The outage is over; returns when it serves again."""

    async def close(self) -> None:
        """The scenario is over."""


class Wires(MemoryNetwork):
    """The memory network, with an endpoint for each life of a node, on which packets take up to four milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        rng = random.Random(0)
        self.delay_seconds = lambda _source, _target: rng.uniform(0.0, LONGEST_DELAY_SECONDS)

    def transport(self, clock: Clock, name: str) -> Transport:
        """A new endpoint."""
        return MemoryTransport(clock, name, self)


class ElectionBackend:
    """One election as the suite runs it; an instance for each scenario. Subclass it for what the defaults do not fit.

    Attributes:
        name: what reports call it.
        realtime: the election waits for something real (a database): scenarios run on real time, not virtual.
        fail_over_seconds: within which a new leader serves after the old one was killed or frozen.
        hand_over_seconds: the same after it resigned or stopped.
        outage_seconds: within which a leader has stopped after its store went away.
        settle_seconds: within which followers hold what the leader has committed.
        rivals, rounds: nodes, and changes of leader among them, of the long contest.
        drift: by which share the clocks of two nodes may differ in speed.
    """

    name = "election"
    realtime = False
    fail_over_seconds = 2.0
    hand_over_seconds = 0.5
    outage_seconds = 2.0
    settle_seconds = 0.5
    rivals = 20
    rounds = 50
    drift = 0.01

    def build(self, context: Context) -> Election:
        """One node's election. Called after :meth:`open_store`, for each life of each node."""
        raise NotImplementedError

    def network(self) -> EnsembleNetwork:
        """Where the nodes' transports meet, on the running event loop."""
        return Wires()

    async def open_store(self) -> Store | None:
        """The service behind the election, new and empty; None where there is none (its scenarios are skipped)."""
        return None

    def died(self, node: str) -> None:
        """The node was killed: end what it holds outside the event loop (its database connections), as the death of
        a process would."""

    def clock(self) -> Clock:
        """The clock of the run."""
        return LoopClock() if self.realtime else VirtualClock()

    def run(self, main: Callable[[random.Random], Coroutine[Any, Any, None]], seed: int) -> None:
        """Run a scenario to its end on an event loop of its own."""
        if self.realtime:
            asyncio.run(main(random.Random(seed)))
        else:
            virtual_time.run(main, seed)


class InstalledBackend(ElectionBackend):
    """Any installed election, by the name and options that a configuration would give.

    Where its options have a ``data_dir`` that is not given, one is: every node has a storage in memory behind it.
    """

    options: Mapping[str, object] = MappingProxyType({})

    def build(self, context: Context) -> Election:
        """As a server would. Raises PluginError."""
        entry, options = self.check(self.name, self.options)
        built = _catalogue().build(entry, options, context)
        assert isinstance(built, Election)
        return built

    @staticmethod
    def check(name: str, options: Mapping[str, object]) -> tuple[Listed, Options]:
        """The offer of that name, and its options, validated. Raises PluginError."""
        entry = _catalogue().find(Port.ELECTION, name)
        directory = {DATA_DIR: "state"} if DATA_DIR in entry.offer.options.model_fields else {}
        return entry, _catalogue().options(entry, {**directory, **options})


@functools.cache
def _catalogue() -> Catalogue:
    return Catalogue.load()
