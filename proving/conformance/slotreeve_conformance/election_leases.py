"""The contract of leases while nodes lose each other at the worst moment for a lease (invariant I2)."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import ElectionError
from slotreeve_machines.storage import MemoryStorage

from slotreeve_conformance.election_backend import Wires
from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.ensemble import Ensemble


class ElectionLeasesContract(ElectionScene):
    """The nodes that are left have a leader, and none before the lease of the one that is cut off has ended.

    Packets that nobody takes wait, and the connections end at the others' ends alone, as after a time-out there. An
    election with a store of its own does not depend on what passes between its nodes, and is not tested.
    """

    def test_a_leader_that_only_a_minority_still_hears_gives_way(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            self._needs_each_other()
            await ensemble.start()
            for turn in range(2):
                leader = await ensemble.agreed(within_seconds=self.patience)
                others = [name for name in ensemble.names if name != leader]
                hearing = others.pop(turn)
                ensemble.network.partition([leader, hearing], others)
                await self._lead_and_meet(ensemble, others)

        self.play(scenario, nodes=5)

    def test_a_follower_that_has_just_answered_the_leader_does_not_lead_before_that_lease_is_over(self) -> None:
        """The other follower has not heard the leader for long, so nothing holds that one back."""

        async def scenario(ensemble: Ensemble) -> None:
            self._needs_each_other()
            await ensemble.start()
            for turn in range(2):
                leader = await ensemble.agreed(within_seconds=self.patience)
                others = [name for name in ensemble.names if name != leader]
                ensemble.network.partition([leader], [others[turn]])
                await asyncio.sleep(self.backend.fail_over_seconds)
                await ensemble.write(leader, "k", b"known to the one that is bound")
                self._cut_off(ensemble, leader)
                await self._lead_and_meet(ensemble, others)

        self.play(scenario)

    @pytest.mark.parametrize("lag_ms", [100, 200, 280])
    def test_answers_that_take_long_make_no_lease_longer(self, lag_ms: int) -> None:
        """The leader's own packets do not arrive any more, while answers to the earlier ones still come."""

        async def scenario(ensemble: Ensemble) -> None:
            self._needs_each_other()
            await ensemble.start()
            leader = await ensemble.agreed()
            others = [name for name in ensemble.names if name != leader]
            if isinstance(ensemble.network, Wires):
                ensemble.network.lag_seconds = {(name, leader): lag_ms / 1000 for name in others}
            await asyncio.sleep(self.backend.settle_seconds)
            ensemble.network.partition([leader], others, one_way=True)
            await asyncio.sleep(lag_ms / 1000)
            self._cut_off(ensemble, leader)
            await self._lead_and_meet(ensemble, others)

        self.play(scenario)

    @pytest.mark.parametrize("sync_ms", [0, 100, 300])
    def test_a_leader_that_is_cut_off_as_it_begins_to_lead_has_no_longer_lease(self, sync_ms: int) -> None:
        """What its first lease rests on was said before slow disks had stored it."""

        async def scenario(ensemble: Ensemble) -> None:
            self._needs_each_other()
            for storage in ensemble.storages.values():
                storage.sync_seconds = sync_ms / 1000
            first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

            def begins_to_lead(name: str) -> None:
                if not first.done():
                    self._cut_off(ensemble, name)
                    for storage in ensemble.storages.values():
                        storage.sync_seconds = 0.0
                    first.set_result(name)

            ensemble.when_leading = begins_to_lead
            await ensemble.start()
            leader = await first
            await self._lead_and_meet(ensemble, [name for name in ensemble.names if name != leader])

        self.play(scenario)

    @pytest.mark.parametrize("first_ms", [180, 220, 260, 300])
    def test_a_node_without_its_data_keeps_no_leader_in_office_before_it_has_promised_anything(
        self, first_ms: int
    ) -> None:
        """It comes, goes in the middle of what makes it a full node again, and comes again while the leader loses the
        other node."""

        async def scenario(ensemble: Ensemble) -> None:
            self._needs_each_other()
            await ensemble.start()
            leader = await ensemble.agreed()
            new, other = (name for name in ensemble.names if name != leader)
            await asyncio.sleep(self.backend.settle_seconds)
            ensemble.kill(new)
            ensemble.storages[new] = MemoryStorage(new)
            if isinstance(ensemble.network, Wires):
                ensemble.network.lag_seconds = {(leader, new): 0.05, (new, leader): 0.05}
            await ensemble.start(new)
            await asyncio.sleep(first_ms / 1000)
            ensemble.kill(new)
            ensemble.network.partition([leader], [other])
            await asyncio.sleep(self._rest)
            await ensemble.start(new)
            await asyncio.sleep(self.backend.fail_over_seconds)

        for share in range(10):
            self._rest = share / 20 * self.make_backend().fail_over_seconds
            self.play(scenario)

    def test_a_leader_whose_disk_is_full_gives_way_before_another_leads(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            self._needs_each_other()
            await ensemble.start()
            for _ in range(3):
                leader = await ensemble.agreed(within_seconds=self.patience)
                others = [name for name in ensemble.names if name != leader]
                ensemble.storages[leader].failure = "No space left on device"
                with pytest.raises(ElectionError):
                    await ensemble.write(leader, "k", b"v")
                await ensemble.leader(among=others, within_seconds=self.patience)
                ensemble.storages[leader].failure = None
                await ensemble.agreed(within_seconds=self.patience)

        self.play(scenario)

    def _needs_each_other(self) -> None:
        if self.store is not None:
            pytest.skip("the nodes of this election need their store, not each other")

    def _cut_off(self, ensemble: Ensemble, leader: str) -> None:
        others = [name for name in ensemble.names if name != leader]
        ensemble.network.partition([leader], others)
        for name in others:
            ensemble.network.drop(name, leader)

    async def _lead_and_meet(self, ensemble: Ensemble, others: list[str]) -> None:
        await ensemble.leader(among=others, within_seconds=self.patience)
        ensemble.network.heal()
        await ensemble.agreed(within_seconds=self.patience)
