"""How a cluster of this plugin's elections is made, in memory and on virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import slotreeve_election_fle
from slotreeve.clock import Clock
from slotreeve.ports import Context, Election, Transport
from slotreeve_election_fle import FleOptions
from slotreeve_testing.conformance.ensemble import Ensemble, Network
from slotreeve_testing.virtual_time import VirtualClock, run
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

Scenario = Callable[[Ensemble], Coroutine[Any, Any, None]]
Play = Callable[..., None]


class Wires(MemoryNetwork):
    """The memory network, with a transport for each life of a node."""

    def transport(self, clock: Clock, name: str) -> Transport:
        """A new endpoint."""
        return MemoryTransport(clock, name, self)


def build(context: Context) -> Election:
    """One node with durable state."""
    return slotreeve_election_fle.build(FleOptions(data_dir="data"), context)


@pytest.fixture
def network() -> Callable[[], Network]:
    """Makes a network on which packets take up to four milliseconds."""

    def make() -> Network:
        wires, rng = Wires(), random.Random(0)
        wires.delay_seconds = lambda _source, _target: rng.uniform(0.0, 0.004)
        return wires

    return make


@pytest.fixture
def play(network: Callable[[], Network]) -> Play:
    """Runs a scenario on nodes meta-1 .. meta-n that are not started yet, and checks the invariants at its end."""

    def play_scenario(
        scenario: Scenario, nodes: int = 3, seed: int = 1, build: Callable[[Context], Election] = build
    ) -> None:
        async def main(rng: random.Random) -> None:
            names = [f"meta-{number}" for number in range(1, nodes + 1)]
            async with Ensemble(build, network(), names, VirtualClock(), rng) as ensemble:
                await scenario(ensemble)
                ensemble.check()

        run(main, seed)

    return play_scenario
