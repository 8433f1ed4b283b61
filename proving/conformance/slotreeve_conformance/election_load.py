"""The contract of elections under load: much is written at once, a node lacks much, most nodes start at once."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio

from slotreeve_conformance.election_backend import Wires
from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.ensemble import Ensemble

WRITES_AT_ONCE = 2_000
LARGE_VALUES = 60
LARGE_VALUE = bytes(range(256)) * 800
"""Sixty of them are 12 MB, many times what an election sends or writes in one piece."""
LAG_SECONDS = 0.25
LATE_SECONDS = 60.0


class ElectionLoadContract(ElectionScene):
    """Work takes its time, but ends no leadership and loses nothing."""

    def test_thousands_of_writes_at_once_are_all_stored_and_the_leader_stays(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            term = ensemble.election(leader).leadership().term
            versions = await asyncio.gather(
                *(ensemble.write(leader, f"k{number}", b"v", 0) for number in range(WRITES_AT_ONCE))
            )
            assert set(versions) == {1}
            assert await ensemble.agreed() == leader
            assert ensemble.election(leader).leadership().term == term

        self.play(scenario, is_load=True)

    def test_a_node_that_lacks_a_large_state_gets_it_and_the_leader_stays(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            *first, late = ensemble.names
            await ensemble.begin()
            await ensemble.start(*first)
            leader = await ensemble.agreed(among=first)
            term = ensemble.election(leader).leadership().term
            for number in range(LARGE_VALUES):
                await ensemble.write(leader, f"large{number}", LARGE_VALUE)
            if isinstance(ensemble.network, Wires):  # so that it takes much longer than any single step may
                for name in first:
                    ensemble.network.lag_seconds[name, late] = ensemble.network.lag_seconds[late, name] = LAG_SECONDS
            await ensemble.start(late)
            state, began = ensemble.election(late).state, asyncio.get_running_loop().time()
            while len(state.keys()) < LARGE_VALUES:
                assert asyncio.get_running_loop().time() < began + LATE_SECONDS, f"{late} lacks {len(state.keys())}"
                await asyncio.sleep(0.05)
            for number in range(LARGE_VALUES):
                held = state.read(f"large{number}")
                assert held is not None, f"I3: {late} lacks large{number}"
                assert held.value == LARGE_VALUE, f"I3: {late} holds another value of large{number}"
            self.measured(f"after {asyncio.get_running_loop().time() - began:.3g} s")
            assert await ensemble.agreed() == leader
            assert ensemble.election(leader).leadership().term == term

        self.play(scenario, is_load=True)

    def test_most_nodes_are_killed_and_started_again_and_one_leads(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            for number in range(len(ensemble.names)):
                leader = await ensemble.agreed()
                await ensemble.write(leader, "k", b"%d" % number)
                kept = ensemble.names[number]
                killed = [name for name in ensemble.names if name != kept]
                for name in killed:
                    ensemble.kill(name)
                await ensemble.start(*killed)
                held = ensemble.election(await ensemble.agreed(within_seconds=self.patience)).state.read("k")
                assert held is not None, "I3: the write is lost"
                assert held.value == b"%d" % number, "I3: the write is lost"

        self.play(scenario)
