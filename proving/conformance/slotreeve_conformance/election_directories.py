"""The contract of elections whose nodes' directories are lost, copied, set back or given to another node (I20)."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.errors import SlotreeveError
from slotreeve_machines.storage import MemoryStorage

from slotreeve_conformance.election_scene import ElectionScene, Scenario
from slotreeve_conformance.ensemble import Ensemble

Files = dict[str, bytes]


def put(ensemble: Ensemble, name: str, files: Files | None = None) -> None:
    """Give a node that does not run another directory: an empty one, or one with these files."""
    storage = ensemble.storages[name] = MemoryStorage(name)
    storage.files = dict(files or {})


class ElectionDirectoriesContract(ElectionScene):
    """An acknowledged write survives whatever happens to the directories of a minority."""

    def test_a_node_that_lost_its_data_and_one_that_is_new_do_not_lead_without_a_write(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.begin()
            put(ensemble, "meta-1")
            await ensemble.start("meta-2", "meta-3")
            await ensemble.write(await ensemble.agreed(), "k", b"acknowledged")
            ensemble.kill("meta-2")
            put(ensemble, "meta-2")
            ensemble.kill("meta-3")
            await ensemble.start("meta-1", "meta-2")
            await self._watch(ensemble)
            await ensemble.start("meta-3")
            await self._watch(ensemble)

        self._play(scenario)

    def test_a_node_that_never_met_another_does_not_trust_its_empty_directory(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.begin()
            put(ensemble, "meta-1")
            await ensemble.start("meta-2", "meta-3")
            await ensemble.agreed()
            ensemble.network.partition(["meta-1"], ["meta-2"])
            await ensemble.start("meta-1")
            leader = await ensemble.agreed(within_seconds=self.patience, among=["meta-2", "meta-3"])
            await ensemble.write(leader, "k", b"1")
            await asyncio.sleep(self.backend.settle_seconds)
            ensemble.network.partition(["meta-1"], ["meta-3"])
            leader = await ensemble.leader(among=["meta-2", "meta-3"], within_seconds=self.patience)
            await ensemble.write(leader, "k", b"2")
            ensemble.kill("meta-2")
            put(ensemble, "meta-2")
            ensemble.kill("meta-3")
            ensemble.network.heal()
            await ensemble.start("meta-2")
            await self._watch(ensemble)
            await ensemble.start("meta-3")
            await ensemble.agreed(within_seconds=self.patience)

        self._play(scenario)

    def test_a_copy_of_another_nodes_directory_is_refused_at_the_start(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.begin()
            put(ensemble, "meta-2")
            await ensemble.start()
            await ensemble.agreed()
            await asyncio.sleep(self.backend.settle_seconds)
            for name in ("meta-1", "meta-2"):
                ensemble.kill(name)
            own = ensemble.storages["meta-1"].files
            put(ensemble, "meta-1", ensemble.storages["meta-2"].files)
            with pytest.raises(SlotreeveError, match="belongs to meta-2"):
                await ensemble.start("meta-1")
            ensemble.kill("meta-1")
            put(ensemble, "meta-1", own)
            await ensemble.start("meta-1", "meta-2")
            await ensemble.agreed(within_seconds=self.patience)

        self._play(scenario)

    def test_a_directory_that_was_replaced_takes_no_part_when_it_is_put_back(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.begin()
            replaced = ensemble.storages["meta-1"].files
            put(ensemble, "meta-1")
            await ensemble.start()
            await ensemble.agreed()
            await asyncio.sleep(self.backend.settle_seconds)
            ensemble.kill("meta-1")
            newest = ensemble.storages["meta-1"].files
            put(ensemble, "meta-1", replaced)
            await ensemble.start("meta-1")
            await asyncio.sleep(2 * self.backend.fail_over_seconds)
            assert ensemble.election("meta-1").leadership().leader is None
            ensemble.kill("meta-1")
            put(ensemble, "meta-1", newest)
            await ensemble.start("meta-1")
            await ensemble.agreed(within_seconds=self.patience)

        self._play(scenario)

    @pytest.mark.parametrize("seed", range(3))
    def test_no_write_is_lost_whatever_happens_to_the_directories_of_a_minority(self, seed: int) -> None:
        self._lose_directories(seed, nodes=3 + 2 * (seed % 2))

    def _lose_directories(self, seed: int, nodes: int) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            rng = random.Random(seed)
            await ensemble.start()
            await ensemble.agreed()
            for _ in range(6):
                await DirectoryFaults(ensemble, rng, self.backend.fail_over_seconds).strike()
                ensemble.check()
                await ensemble.agreed(within_seconds=self.patience)
                await asyncio.sleep(self.backend.settle_seconds)
                ensemble.check()

        self._play(scenario, nodes, seed)

    def _play(self, scenario: Scenario, nodes: int = 3, seed: int = 1) -> None:
        async def where_there_are_directories(ensemble: Ensemble) -> None:
            if self.store is not None:
                pytest.skip("this election has no directories of its own")
            await scenario(ensemble)

        self.play(where_there_are_directories, nodes, seed)

    async def _watch(self, ensemble: Ensemble) -> None:
        """Nobody leads without an acknowledged write, for many attempts."""
        for _ in range(20):
            await asyncio.sleep(self.backend.fail_over_seconds / 2)
            ensemble.check()


class DirectoryFaults:
    """Directories of fewer than half of the nodes are lost, copied, or set back to the ones before, while nodes are cut
    off from each other, die and start again, and somebody writes."""

    def __init__(self, ensemble: Ensemble, rng: random.Random, unit_seconds: float) -> None:
        """The ensemble runs, and all its nodes hold the same."""
        self._ensemble, self._rng, self._unit = ensemble, rng, unit_seconds
        most = (len(ensemble.names) - 1) // 2
        self._victims = rng.sample(ensemble.names, rng.randint(1, most))
        self._lost: dict[str, Files] = {}

    async def strike(self) -> None:
        """One round; at its end every node runs again, with the newest directory that it had."""
        names, network = self._ensemble.names, self._ensemble.network
        for _ in range(12):
            name = self._rng.choice(names)
            match self._rng.choice(
                ["write", "write", "write", "kill", "kill", "start", "start", "part", "heal", "harm"]
            ):
                case "write":
                    await self._write()
                case "kill" if name in self._ensemble.running:
                    self._ensemble.kill(name)
                case "start" if name not in self._ensemble.running:
                    await self._start(name)
                case "part":
                    network.partition([name], self._rng.sample(names, len(names) // 2))
                case "heal":
                    network.heal()
                case "harm":
                    await self._harm(self._rng.choice(self._victims))
                case _:
                    pass
            await asyncio.sleep(self._unit * self._rng.choice([0.0, 0.01, 0.3, 1.5]))
        network.heal()
        for name in names:
            if name not in self._ensemble.running:
                await self._start(name)

    async def _harm(self, name: str) -> None:
        if name in self._ensemble.running:
            self._ensemble.kill(name)
        files = dict(self._ensemble.storages[name].files)
        match self._rng.choice(["lose", "copy", "set back"]):
            case "lose":
                self._lost[name] = files
                put(self._ensemble, name)
            case "copy":
                other = self._rng.choice([each for each in self._ensemble.names if each != name])
                await self._try(name, dict(self._ensemble.storages[other].files))
                put(self._ensemble, name, files)
            case _ if name in self._lost:
                await self._try(name, self._lost[name])
                put(self._ensemble, name, files)
            case _:
                pass

    async def _try(self, name: str, files: Files) -> None:
        """Start the node with a directory that is not its newest one, for a while."""
        put(self._ensemble, name, files)
        await self._start(name)
        await asyncio.sleep(self._unit * self._rng.choice([0.1, 1.0, 2.0]))
        await self._write()
        if name in self._ensemble.running:
            self._ensemble.kill(name)

    async def _start(self, name: str) -> None:
        try:
            await self._ensemble.start(name)
        except SlotreeveError:
            self._ensemble.kill(name)  # it is refused, as a process that ends with an error

    async def _write(self) -> None:
        for name in self._ensemble.leading():
            try:
                async with asyncio.timeout(self._unit):
                    await self._ensemble.write(name, self._rng.choice("abc"), b"%d" % self._rng.getrandbits(30))
            except (SlotreeveError, TimeoutError):
                pass  # its outcome is not known
