"""The contract of an election's fenced meta state as tests (invariant I3)."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import NotLeader, StaleTerm, VersionConflict
from slotreeve.ports import Versioned

from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.ensemble import Ensemble


class ElectionStateContract(ElectionScene):
    """Reads, writes, watches; fencing by term; durability."""

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
            await asyncio.sleep(self.backend.settle_seconds)
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

    def test_watchers_get_every_change_in_order_until_they_stop(self) -> None:
        async def scenario(ensemble: Ensemble) -> None:
            await ensemble.start()
            leader = await ensemble.agreed()
            changes: list[tuple[str, int]] = []
            stop = ensemble.election(leader).state.watch(lambda key, held: changes.append((key, held.version)))
            for key in ("a", "b", "a"):
                await ensemble.write(leader, key, b"")
            await asyncio.sleep(self.backend.settle_seconds)
            stop()
            await ensemble.write(leader, "a", b"")
            assert changes == [("a", 1), ("b", 1), ("a", 2)]

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
