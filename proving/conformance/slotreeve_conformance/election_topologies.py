"""The contract of elections whose nodes are cut off from each other for good, in any topology (I23)."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.topologies import Topology, all_one_way, all_symmetric, is_led_under, random_one_way

FIVE = [f"meta-{number}" for number in range(1, 6)]


def linked(*groups: Sequence[int]) -> Topology:
    """Only nodes of one group are linked, by number."""
    pairs = {frozenset((f"meta-{a}", f"meta-{b}")) for group in groups for a in group for b in group if a != b}
    return frozenset((a, b) for a in FIVE for b in FIVE if a != b and frozenset((a, b)) not in pairs)


NAMED = {
    "three see each other, two see one of them": linked((1, 2, 3), (3, 4), (3, 5)),
    "a star around the lowest": linked((1, 2), (1, 3), (1, 4), (1, 5)),
    "a ring": linked((1, 2), (2, 3), (3, 4), (4, 5), (5, 1)),
}


class ElectionTopologiesContract(ElectionScene):
    """Where a node exchanges packets with a majority, one such node leads, and goes on to."""

    @pytest.mark.parametrize("name", NAMED)
    def test_a_majority_that_is_connected_is_led(self, name: str) -> None:
        self._play_topology(NAMED[name], 5)

    @pytest.mark.parametrize("seed", range(3))
    def test_so_it_is_in_topologies_at_random(self, seed: int) -> None:
        rng = random.Random(seed)
        self._play_topology(rng.choice(list(all_symmetric(FIVE))), 5)
        self._play_topology(random_one_way(FIVE, rng), 5)
        self._play_topology(rng.choice(list(all_one_way(FIVE[:3]))), 3)

    def _play_topology(self, topology: Topology, nodes: int) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            if self.store is not None:
                pytest.skip("the nodes of this election need a store, and not each other")
            await ensemble.start()
            await ensemble.write(await ensemble.agreed(), "k", b"v")
            self.measured(f"a centre led for good after {await is_led_under(ensemble, topology):.3g} s")

        self.play(scenario, nodes=nodes)
