"""The contract of the meta state's durability: losses of power, and disks that are slow (invariant I3)."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress

import pytest

from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.lossy_storage import LossyStorage

SLOW_SYNC_SECONDS = 0.2
SHORT_SYNC_SECONDS = 0.05


class ElectionDurabilityContract(ElectionScene):
    """What was acknowledged or read is durable at that moment, on machines that lose what they have not synced."""

    def test_an_acknowledged_write_survives_a_loss_of_power_in_the_same_moment(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            self._give_lossy_disks(ensemble)
            await ensemble.start()
            for _ in range(4):
                leader = await ensemble.agreed(within_seconds=self.patience)
                others = [name for name in ensemble.names if name != leader]
                self._slow_down(ensemble, others, SLOW_SYNC_SECONDS)
                await ensemble.write(leader, "k", b"acknowledged")
                self._lose_power(ensemble)
                await ensemble.start(*others)
                await ensemble.leader(among=others, within_seconds=self.patience)
                ensemble.check()
                await ensemble.start(leader)

        self.play(scenario)

    def test_what_a_new_leader_shows_survives_a_loss_of_power_in_the_same_moment(self) -> None:
        """The leader alone had it, unacknowledged, and one other node has just been given it."""

        async def scenario(ensemble: Ensemble) -> None:
            self._needs_disks()
            self._give_lossy_disks(ensemble)
            await ensemble.start()
            for turn in range(10):
                leader = await ensemble.agreed(within_seconds=self.patience)
                others = [name for name in ensemble.names if name != leader]
                ensemble.network.partition([leader], others)
                with suppress(TimeoutError):
                    async with asyncio.timeout(SHORT_SYNC_SECONDS):
                        await ensemble.write(leader, "k", b"shown")
                self._lose_power(ensemble)
                ensemble.network.heal()
                given = others[turn % 2]
                self._slow_down(ensemble, [given], SHORT_SYNC_SECONDS)
                await ensemble.start(leader, given)
                shows = await ensemble.leader(within_seconds=self.patience)
                shown = ensemble.election(shows).state.read("k")
                self._lose_power(ensemble)
                left = [name for name in ensemble.names if name != shows]
                await ensemble.start(*left)
                later = await ensemble.leader(among=left, within_seconds=self.patience)
                held = ensemble.election(later).state.read("k")
                assert shown is None or (held is not None and held.version >= shown.version), (
                    f"I3: {shows} showed {shown}, and after a loss of power {later} has {held}"
                )
                await ensemble.start(shows)

        self.play(scenario)

    def test_a_node_whose_disk_was_slow_has_every_write_on_it_once_it_has_caught_up(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            self._needs_disks()
            await ensemble.start()
            for slow in ensemble.names:
                leader = await ensemble.agreed(within_seconds=self.patience)
                if leader == slow:
                    await ensemble.election(slow).resign()
                    leader = await ensemble.agreed(within_seconds=self.patience)
                self._slow_down(ensemble, [slow], SLOW_SYNC_SECONDS)
                for number in range(10):
                    await ensemble.write(leader, f"{slow} {number}", b"v")
                self._slow_down(ensemble, [slow], 0.0)
                await asyncio.sleep(self.backend.settle_seconds)
                for name in ensemble.names:
                    ensemble.kill(name)
                left = [name for name in ensemble.names if name != leader]
                await ensemble.start(*left)
                await ensemble.leader(among=left, within_seconds=self.patience)
                ensemble.check()
                await ensemble.start(leader)

        self.play(scenario)

    def _needs_disks(self) -> None:
        if self.store is not None:
            pytest.skip("this election has no disks of its own")

    def _give_lossy_disks(self, ensemble: Ensemble) -> None:
        for name in ensemble.names:
            ensemble.storages[name] = LossyStorage(name, random.Random(name))

    def _slow_down(self, ensemble: Ensemble, names: Iterable[str], sync_seconds: float) -> None:
        for name in names:
            ensemble.storages[name].sync_seconds = sync_seconds

    def _lose_power(self, ensemble: Ensemble) -> None:
        """All machines go down at once; after that the disks are fast."""
        for name in ensemble.running:
            ensemble.kill(name, power_lost=True)
        self._slow_down(ensemble, ensemble.names, 0.0)
