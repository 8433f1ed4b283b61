"""Provided configuration: written through the meta leader, pushed by the session servers, latest wins."""

from __future__ import annotations

import random

import pytest
from slotreeve.errors import ClientError, ModelError
from slotreeve_client import ConfigWatch
from slotreeve_client.administration import get_configs, put_config
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport


class Operator:
    """Writes and reads as the command line does, from a process of its own."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._transport = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
        self._metas = [cluster.address(f"meta-{number}") for number in (1, 2, 3)]

    async def put(self, key: str, value: str | None, expected_version: int | None = None) -> int:
        data = None if value is None else value.encode()
        return (await put_config(self._transport, "slotreeve", self._metas, key, data, expected_version)).version

    async def all(self) -> dict[str, bytes | None]:
        return {entry.key: entry.value for entry in await get_configs(self._transport, "slotreeve", self._metas)}


def test_watchers_are_told_what_is_there_and_every_change_in_order() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            operator = Operator(cluster)
            seen: list[tuple[bytes | None, int]] = []
            watch = cluster.client("session-1").watch_config("limits", lambda w: seen.append((w.value, w.version)))
            await watch.ready()
            assert seen == [(None, 0)]
            assert await operator.put("limits", "100", expected_version=0) == 1
            assert await operator.put("limits", "200", expected_version=1) == 2
            assert await operator.put("limits", None) == 3
            await cluster.until(lambda: watch.version == 3, "the deletion is seen")
            assert [version for _, version in seen] == sorted({version for _, version in seen})
            assert seen[-1] == (None, 3)
            assert await operator.all() == {}
            late = cluster.client("session-2").watch_config("limits")
            await late.ready()
            assert (late.value, late.version) == (None, 3)

    run(scenario, seed=1)


def test_a_write_that_expects_another_version_is_refused_with_both() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            operator = Operator(cluster)
            await operator.put("limits", "100")
            with pytest.raises(ClientError, match="version 1"):
                await operator.put("limits", "200", expected_version=0)
            assert await operator.all() == {"limits": b"100"}

    run(scenario, seed=2)


@pytest.mark.parametrize("key", ["", "  ", "x" * 513])
def test_a_key_that_cannot_be_is_refused(key: str) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            with pytest.raises(ModelError, match="the configuration key"):
                await Operator(cluster).put(key, "x")

    run(scenario, seed=3)


@pytest.mark.parametrize("seed", seeds(1))
def test_it_survives_the_loss_of_leaders_sessions_and_of_all_processes(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            operator = Operator(cluster)
            versions: list[int] = []

            def changed(watch: ConfigWatch) -> None:
                versions.append(watch.version)

            watch = cluster.client().watch_config("limits", changed)
            written = 0
            for _ in range(5):
                written = await operator.put("limits", str(written))
                leader = cluster.leader
                assert leader is not None
                cluster.kill(leader)
                await cluster.until(lambda: cluster.leader is not None, "another leads")
                written = await operator.put("limits", str(written))
                await cluster.start(leader)
                session = rng.choice(["session-1", "session-2"])
                cluster.kill(session)
                await cluster.start(session)
                await cluster.until(lambda newest=written: watch.version == newest, "the newest is seen", 10)  # type: ignore[misc]
            everything = ["meta-1", "meta-2", "meta-3", "session-1", "session-2", "data-1", "data-2", "data-3"]
            for name in everything:
                cluster.kill(name)
            for name in everything:
                await cluster.start(name)
            await cluster.ready(60)
            assert await operator.all() == {"limits": str(written - 1).encode()}
            written = await operator.put("limits", "last")
            await cluster.until(lambda: watch.value == b"last", "the newest is seen", 10)
            assert versions == sorted(set(versions))

    run(scenario, seed)
