"""The contract of elections as tests.

Subclass :class:`ElectionContract` in a test module and return the back-end under test::

    class TestMine(ElectionContract):
        def make_backend(self) -> ElectionBackend:
            return MyBackend()
"""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import NotLeader, StaleTerm

from slotreeve_conformance.election_directories import ElectionDirectoriesContract
from slotreeve_conformance.election_durability import ElectionDurabilityContract
from slotreeve_conformance.election_faults import ElectionFaultsContract
from slotreeve_conformance.election_history import ElectionHistoryContract
from slotreeve_conformance.election_leases import ElectionLeasesContract
from slotreeve_conformance.election_load import ElectionLoadContract
from slotreeve_conformance.election_state import ElectionStateContract
from slotreeve_conformance.election_topologies import ElectionTopologiesContract
from slotreeve_conformance.ensemble import Ensemble


class ElectionContract(
    ElectionStateContract,
    ElectionDurabilityContract,
    ElectionDirectoriesContract,
    ElectionTopologiesContract,
    ElectionLeasesContract,
    ElectionFaultsContract,
    ElectionLoadContract,
    ElectionHistoryContract,
):
    """The whole suite: leadership (here), the fenced and durable state, directories, topologies, leases, faults, load,
    histories of clients."""

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
            began = asyncio.get_running_loop().time()
            ensemble.kill(first)
            second = await ensemble.leader(within_seconds=self.backend.fail_over_seconds)
            self.measured(f"after {asyncio.get_running_loop().time() - began:.3g} s")
            assert second != first
            assert ensemble.election(second).leadership().term > term

        self.play(scenario)

    def test_a_leader_whose_machine_is_suspended_is_replaced_and_wakes_without_a_lease(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            first = await ensemble.agreed()
            ensemble.suspend(first)
            others = [name for name in ensemble.names if name != first]
            second = await ensemble.leader(among=others, within_seconds=self.backend.fail_over_seconds)
            term = ensemble.election(first).leadership().term
            ensemble.resume(first)
            assert ensemble.leading() == [second]
            with pytest.raises((NotLeader, StaleTerm)):
                await ensemble.election(first).state.write("key", b"old", None, term)
            assert await ensemble.agreed() == second

        self.play(scenario)

    def test_a_frozen_leader_is_replaced_and_wakes_without_a_lease(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            first = await ensemble.agreed()
            began = asyncio.get_running_loop().time()
            ensemble.freeze(first)
            others = [name for name in ensemble.names if name != first]
            second = await ensemble.leader(among=others, within_seconds=self.backend.fail_over_seconds)
            self.measured(f"after {asyncio.get_running_loop().time() - began:.3g} s")
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
            began = asyncio.get_running_loop().time()
            await ensemble.election(first).resign()
            assert not ensemble.election(first).leadership().leading
            assert await ensemble.leader(within_seconds=self.backend.hand_over_seconds) != first
            self.measured(f"after {asyncio.get_running_loop().time() - began:.3g} s")
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
            assert await ensemble.leader(within_seconds=self.backend.hand_over_seconds) != first

        self.play(scenario)

    def test_a_node_that_comes_later_does_not_disturb_the_leader(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.begin()
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
            await asyncio.sleep(self.backend.settle_seconds)
            assert ensemble.election("watcher").state.read("k") is not None
            ensemble.kill(first)
            second = await ensemble.agreed(within_seconds=self.backend.fail_over_seconds)
            assert second != first
            assert not any(report.leading for report in ensemble.reports("watcher"))

        self.play(scenario)
