"""What every election has to do, whatever it rests on: subclass :class:`ElectionContract` and say how one is built."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from slotreeve.clock import Clock
from slotreeve.errors import NotLeader, StaleTerm, VersionConflict
from slotreeve.ports import Context, Election, Versioned

from slotreeve_testing.conformance.ensemble import Ensemble, Network
from slotreeve_testing.virtual_time import VirtualClock, run

Scenario = Callable[[Ensemble], Coroutine[Any, Any, None]]


class ElectionContract:
    """Subclass it in a test module; pytest collects the tests from there.

    Attributes:
        fail_over_seconds: within which a new leader serves after the old one was killed or frozen.
        hand_over_seconds: the same after it resigned or stopped.
    """

    fail_over_seconds = 2.0
    hand_over_seconds = 0.5

    def build(self, context: Context) -> Election:
        """One node's election."""
        raise NotImplementedError

    def network(self) -> Network:
        """Where the nodes' transports meet, on the running event loop."""
        raise NotImplementedError

    def clock(self) -> Clock:
        """The clock of the run; virtual unless the election needs a real database."""
        return VirtualClock()

    def run(self, main: Callable[[random.Random], Coroutine[Any, Any, None]], seed: int) -> None:
        """Run a scenario on its own event loop; virtual time unless overridden."""
        run(main, seed)

    def play(self, scenario: Scenario, nodes: int = 3, seed: int = 1) -> None:
        """Run a scenario on ``nodes`` nodes that are not started yet, and check the invariants at its end."""

        async def main(rng: random.Random) -> None:
            names = [f"meta-{number}" for number in range(1, nodes + 1)]
            async with Ensemble(self.build, self.network(), names, self.clock(), rng) as ensemble:
                await scenario(ensemble)
                ensemble.check()

        self.run(main, seed)

    # --- leadership --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("nodes", [1, 3, 5])
    def test_one_node_leads_and_all_know_it(self, nodes: int) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            assert ensemble.leading() == [leader]
            assert ensemble.election(leader).leadership().term > 0
            assert all(ensemble.election(n).leadership().valid_until == 0 for n in ensemble.names if n != leader)

        self.play(scenario, nodes)

    def test_a_killed_leader_is_replaced_under_a_higher_term(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            first = await ensemble.agreed()
            term = ensemble.election(first).leadership().term
            ensemble.kill(first)
            second = await ensemble.leader(within_seconds=self.fail_over_seconds)
            assert second != first
            assert ensemble.election(second).leadership().term > term

        self.play(scenario)

    def test_a_frozen_leader_is_replaced_and_wakes_without_a_lease(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            first = await ensemble.agreed()
            ensemble.freeze(first)
            others = [name for name in ensemble.names if name != first]
            second = await ensemble.leader(among=others, within_seconds=self.fail_over_seconds)
            term = ensemble.election(first).leadership().term
            ensemble.thaw(first)
            assert first not in ensemble.leading()
            with pytest.raises((NotLeader, StaleTerm)):
                await ensemble.election(first).state.write("k", b"late", None, term)
            assert await ensemble.agreed() == second

        self.play(scenario)

    def test_a_resigned_leader_is_replaced_at_once_by_another(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            first = await ensemble.agreed()
            await ensemble.election(first).resign()
            assert not ensemble.election(first).leadership().leading
            assert await ensemble.leader(within_seconds=self.hand_over_seconds) != first
            assert "resigned" in {report.cause for report in ensemble.reports(first)}

        self.play(scenario)

    def test_resigning_without_leading_changes_nothing(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            other = next(name for name in ensemble.names if name != leader)
            await ensemble.election(other).resign()
            assert await ensemble.agreed() == leader

        self.play(scenario)

    def test_stopping_hands_over_and_is_idempotent(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            first = await ensemble.agreed()
            election = ensemble.election(first)
            await election.stop()
            await election.stop()
            assert not election.leadership().leading
            assert await ensemble.leader(within_seconds=self.hand_over_seconds) != first

        self.play(scenario)

    def test_a_node_that_comes_later_does_not_disturb_the_leader(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start("meta-1", "meta-2")
            leader = await ensemble.agreed()
            term = ensemble.election(leader).leadership().term
            await ensemble.start("meta-3")
            assert await ensemble.agreed() == leader
            assert ensemble.election(leader).leadership().term == term

        self.play(scenario)

    def test_a_node_that_only_observes_learns_the_leader_and_never_leads(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            await ensemble.start("watcher", observe_only=True)
            first = await ensemble.agreed()
            await ensemble.write(first, "k", b"v")
            await asyncio.sleep(0.5)
            assert ensemble.election("watcher").state.read("k") is not None
            ensemble.kill(first)
            second = await ensemble.agreed(within_seconds=self.fail_over_seconds)
            assert second != first
            assert not any(report.leading for report in ensemble.reports("watcher"))

        self.play(scenario)

    # --- the fenced state --------------------------------------------------------------------------------------------

    def test_a_write_is_read_everywhere_with_its_version_and_term(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            term = ensemble.election(leader).leadership().term
            assert ensemble.election(leader).state.read("k") is None
            assert await ensemble.write(leader, "k", b"one", 0) == 1
            assert await ensemble.write(leader, "k", b"two", 1) == 2
            assert await ensemble.write(leader, "a", b"", None) == 1
            assert ensemble.election(leader).state.read("k") == Versioned(b"two", 2, term)
            await asyncio.sleep(0.5)
            for name in ensemble.names:
                assert ensemble.election(name).state.read("k") == Versioned(b"two", 2, term)
                assert list(ensemble.election(name).state.keys()) == ["a", "k"]

        self.play(scenario)

    def test_a_write_expecting_another_version_is_refused(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            await ensemble.write(leader, "k", b"one", 0)
            for expected in (0, 2):
                with pytest.raises(VersionConflict, match=f"version 1.*{expected}"):
                    await ensemble.write(leader, "k", b"two", expected)
            first, second = await asyncio.gather(
                ensemble.write(leader, "k", b"a", 1), ensemble.write(leader, "k", b"b", 1), return_exceptions=True
            )
            assert first == 2
            assert isinstance(second, VersionConflict)

        self.play(scenario)

    def test_only_the_leader_writes_and_only_under_its_term(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            term = ensemble.election(leader).leadership().term
            other = next(name for name in ensemble.names if name != leader)
            with pytest.raises(NotLeader):
                await ensemble.write(other, "k", b"v")
            with pytest.raises(StaleTerm, match=f"{term - 1}.*{term}"):
                await ensemble.election(leader).state.write("k", b"v", None, term - 1)
            assert ensemble.election(leader).state.read("k") is None

        self.play(scenario)

    def test_watchers_hear_every_change_in_order_until_they_stop(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            heard: list[tuple[str, int]] = []
            stop = ensemble.election(leader).state.watch(lambda key, held: heard.append((key, held.version)))
            for key in ("a", "b", "a"):
                await ensemble.write(leader, key, b"")
            await asyncio.sleep(0.5)
            stop()
            await ensemble.write(leader, "a", b"")
            assert heard == [("a", 1), ("b", 1), ("a", 2)]

        self.play(scenario)

    def test_a_new_leader_holds_every_acknowledged_write_when_it_starts_to_lead(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            for turn in range(4):
                leader = await ensemble.agreed()
                for number in range(5):
                    await ensemble.write(leader, f"k{number}", b"%d" % turn, None)
                ensemble.kill(leader)
                successor = await ensemble.leader()
                ensemble.check()
                for number in range(5):
                    held = ensemble.election(successor).state.read(f"k{number}")
                    assert held is not None
                    assert held.value == b"%d" % turn
                await ensemble.start(leader)

        self.play(scenario)

    def test_the_state_survives_the_end_of_all_nodes(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            term = ensemble.election(leader).leadership().term
            await ensemble.write(leader, "k", b"kept")
            for name in ensemble.names:
                ensemble.kill(name)
            await ensemble.start()
            again = await ensemble.agreed()
            assert ensemble.election(again).leadership().term > term
            assert ensemble.election(again).state.read("k") == Versioned(b"kept", 1, term)

        self.play(scenario)
