"""The contract of elections under faults: wrong clocks, frozen and restarted nodes, outages, long contests."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio
import statistics

import pytest
from slotreeve.errors import ElectionError
from slotreeve_machines.storage import MemoryStorage

from slotreeve_conformance.election_backend import RestorableStore
from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.ensemble import Ensemble, Skew

HOUR_MS = 3_600_000
LARGE_VALUE = bytes(range(256)) * 800
"""Too long for one message of most elections."""


class ElectionFaultsContract(ElectionScene):
    """At most one node holds a lease at any moment, and soon after a fault one does again."""

    def test_leases_hold_on_clocks_that_disagree_and_drift(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            drift = self.backend.drift
            ensemble.skews = {
                "meta-1": Skew(-900.0, 1.0 - drift / 2, -48 * HOUR_MS),
                "meta-2": Skew(1_000_000.0, 1.0 + drift / 2, 5 * HOUR_MS),
                "meta-3": Skew(wall_ms=HOUR_MS // 60),
            }
            await ensemble.start()
            for _ in ensemble.names * 2:
                first = await ensemble.agreed()
                ensemble.freeze(first)
                others = [name for name in ensemble.names if name != first]
                await ensemble.leader(among=others, within_seconds=2 * self.backend.fail_over_seconds)
                ensemble.thaw(first)

        self.play(scenario)

    def test_a_pause_shorter_than_the_lease_has_no_effect(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            election = ensemble.election(leader)
            granted = election.leadership().valid_until
            term, remaining = election.leadership().term, granted - ensemble.now(leader)
            assert 0 < remaining < 60, "a lease is counted in seconds on the node's own monotonic clock"
            ensemble.freeze(leader)
            await asyncio.sleep(remaining / 10)
            ensemble.thaw(leader)
            await asyncio.sleep(self.backend.settle_seconds)
            assert await ensemble.agreed() == leader
            assert election.leadership().term == term
            assert election.leadership().valid_until > granted

        self.play(scenario)

    def test_every_node_in_turn_is_restarted_with_its_data_and_nothing_is_lost(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            for name in ensemble.names:
                await ensemble.write(await ensemble.agreed(), name, b"v")
                await ensemble.stop(name)
                await ensemble.leader(within_seconds=self.backend.fail_over_seconds)
                await ensemble.start(name)
            leader = await ensemble.agreed()
            assert list(ensemble.election(leader).state.keys()) == ensemble.names

        self.play(scenario)

    def test_a_node_restarted_without_its_data_comes_back_and_breaks_nothing(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            await ensemble.write(leader, "large", LARGE_VALUE)
            for number in range(30):  # some elections keep what is older than that in another form
                await ensemble.write(leader, "k", b"%d" % number)
            forgetful = next(name for name in ensemble.names if name != leader)
            ensemble.kill(forgetful)
            ensemble.storages[forgetful] = MemoryStorage(forgetful)
            await ensemble.start(forgetful)
            await ensemble.agreed()
            await asyncio.sleep(self.backend.settle_seconds)
            for key, value in (("large", LARGE_VALUE), ("k", b"29")):
                held = ensemble.election(forgetful).state.read(key)
                assert held is not None, f"I3: {forgetful} lacks {key!r}"
                assert held.value == value, f"I3: {forgetful} holds another value of {key!r}"
            ensemble.kill(leader)
            await ensemble.leader(within_seconds=self.backend.fail_over_seconds)

        self.play(scenario)

    def test_no_node_leads_without_the_store_and_nothing_is_lost_after_the_outage(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            if self.store is None:
                pytest.skip("this election has no store of its own")
            await ensemble.start()
            leader = await ensemble.agreed()
            term = ensemble.election(leader).leadership().term
            await ensemble.write(leader, "k", b"kept")
            await self.store.stop()
            stopped = await ensemble.until_nobody_leads(within_seconds=self.backend.outage_seconds)
            with pytest.raises(ElectionError):
                await ensemble.write(leader, "k", b"lost")
            await self.store.start()
            again = await ensemble.agreed(within_seconds=10 * self.backend.fail_over_seconds)
            assert ensemble.election(again).leadership().term >= term
            held = ensemble.election(again).state.read("k")
            assert held is not None
            assert held.value == b"kept"
            self.measured(f"no node led {stopped:.3g} s after the outage began")

        self.play(scenario)

    def test_no_node_leads_by_a_store_that_was_set_back_before_an_operator_accepts_it(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            store = self.store
            if not isinstance(store, RestorableStore):
                pytest.skip("this election has no store that can be set back")
            await ensemble.start()
            leader = await ensemble.agreed()
            await ensemble.write(leader, "kept", b"old")
            restore = await store.back_up()
            for number in range(3):
                await ensemble.write(leader, "given up", b"%d" % number)
            term = ensemble.election(leader).leadership().term
            await self._all_hold(ensemble, "given up", b"2")
            await restore()
            await ensemble.until_nobody_leads(within_seconds=2 * self.backend.outage_seconds)
            await ensemble.until_nobody_leads(0.0)
            for _ in range(20):
                await asyncio.sleep(self.backend.fail_over_seconds / 5)
                assert ensemble.leading() == []
            assert all("set back" in ensemble.election(name).leadership().cause for name in ensemble.names)
            ensemble.give_up("given up")
            await store.accept()
            again = await ensemble.agreed(within_seconds=10 * self.backend.fail_over_seconds)
            assert ensemble.election(again).leadership().term > term
            await ensemble.write(again, "kept", b"new", expected_version=1)
            await self._all_hold(ensemble, "kept", b"new")
            assert all(ensemble.election(name).state.read("given up") is None for name in ensemble.names)

        self.play(scenario)

    async def _all_hold(self, ensemble: Ensemble, key: str, value: bytes) -> None:
        """Wait until every node has read the value."""
        deadline = asyncio.get_running_loop().time() + 10 * self.backend.settle_seconds
        while True:
            held = [ensemble.election(name).state.read(key) for name in ensemble.names]
            if all(found is not None and found.value == value for found in held):
                return
            assert asyncio.get_running_loop().time() < deadline, f"{key}: {held}"
            await asyncio.sleep(self.backend.settle_seconds / 10)

    def test_many_rivals_never_lead_at_once_over_many_changes(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            spans, terms, rounds = [], set(), self.backend.rounds
            for number in range(rounds):
                old = await ensemble.agreed(within_seconds=10 * self.backend.fail_over_seconds)
                terms.add(ensemble.election(old).leadership().term)
                await ensemble.write(old, "round", b"%d" % number)
                spans.append(await self._dethrone(ensemble, old, number % 3))
            assert len(terms) == rounds, "a leader that was dethroned went on under its old term"
            self.measured(
                f"{len(ensemble.names)} nodes, {rounds} changes, {ensemble.samples} samples; a new leader after "
                f"{statistics.median(spans):.3g} s (median), {max(spans):.3g} s (longest)"
            )

        self.play(scenario, nodes=self.make_backend().rivals)

    async def _dethrone(self, ensemble: Ensemble, old: str, how: int) -> float:
        """Kill or freeze the leader or let it resign, wait for another leader, and start the old one again. Returns the
        seconds until the new leader led."""
        others = [name for name in ensemble.names if name != old]
        began = asyncio.get_running_loop().time()
        if how == 0:
            ensemble.kill(old)
        elif how == 1:
            ensemble.freeze(old)
        else:
            await ensemble.election(old).resign()
        await ensemble.leader(among=others, within_seconds=10 * self.backend.fail_over_seconds)
        seconds = asyncio.get_running_loop().time() - began
        if how == 0:
            await ensemble.start(old)
        elif how == 1:
            ensemble.thaw(old)
        return seconds
