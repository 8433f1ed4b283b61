"""How a cluster of this plugin's elections is made, in memory and on virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import slotreeve_election_fle
from slotreeve.ports import Context, Election
from slotreeve_conformance.election_backend import Wires
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_election_fle import FleOptions

Scenario = Callable[[Ensemble], Coroutine[Any, Any, None]]
Play = Callable[..., None]


def build(context: Context) -> Election:
    """One node with durable state."""
    return slotreeve_election_fle.build(FleOptions(data_dir="data"), context)


@pytest.fixture
def play() -> Play:
    """Runs a scenario on nodes meta-1 .. meta-n that are not started yet, and checks the invariants at its end."""

    def play_scenario(
        scenario: Scenario, nodes: int = 3, seed: int = 1, build: Callable[[Context], Election] = build
    ) -> None:
        async def main(rng: random.Random) -> None:
            names = [f"meta-{number}" for number in range(1, nodes + 1)]
            async with Ensemble(build, Wires(), names, VirtualClock(), rng) as ensemble:
                await scenario(ensemble)
                ensemble.check()

        run(main, seed)

    return play_scenario
