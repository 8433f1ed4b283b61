"""A swap of the election back-end on a running cluster in virtual time: refused, completed, and cut short."""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from slotreeve.errors import ClientError, SlotreeveError
from slotreeve_client.administration import ask_any, get_configs, put_config
from slotreeve_client.election_swap import all_use, elections_in_use, swap_election
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.meta_messages import Resign, Swapped
from slotreeve_simulator.process_clock import ProcessClock
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.store import ELECTION as LOCK
from slotreeve_simulator.store import LockStore
from slotreeve_transport_memory.transport import MemoryTransport

METAS = ("meta-1", "meta-2", "meta-3")
WITH_LOCK = {"election.simulated_lock.lease_ms": 2_000}


class Operated:
    """A cluster whose meta servers can go over to a lock election, and a tool of its operator."""

    def __init__(self, rng: random.Random, **settings: object) -> None:
        self.cluster = SimulatedCluster(rng, settings={**WITH_LOCK, **settings})
        self.store = LockStore(ProcessClock(), random.Random(1), (0.5, 2.0))
        self.store.offer(self.cluster.catalogue)
        self.metas = [self.cluster.address(name) for name in METAS]

    async def __aenter__(self) -> Operated:
        await self.cluster.__aenter__()
        self.tool = MemoryTransport(self.cluster.process_clock("operator"), "operator", self.cluster.network)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.tool.close()
        await self.cluster.__aexit__(None, None, None)

    async def swap(self, to: str, check_only: bool = False) -> Swapped:
        return await swap_election(self.tool, "slotreeve", self.metas, to, check_only)

    async def put(self, key: str, value: bytes) -> int:
        return (await put_config(self.tool, "slotreeve", self.metas, key, value)).version

    async def configuration(self) -> dict[str, tuple[int, bytes | None]]:
        entries = await get_configs(self.tool, "slotreeve", self.metas)
        return {entry.key: (entry.version, entry.value) for entry in entries}

    async def in_use(self) -> set[str]:
        return {found.use for found in (await elections_in_use(self.tool, "slotreeve", self.metas)).values()}

    async def agree(self, name: str) -> None:
        await all_use(self.tool, "slotreeve", self.metas, name)


@pytest.mark.parametrize("seed", seeds(1))
def test_the_meta_state_goes_over_and_back_and_is_the_same(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        async with Operated(rng) as operated:
            cluster = operated.cluster
            await operated.put("limits.rate", b"100")
            await operated.put("limits.rate", b"200")
            configuration, view = await operated.configuration(), cluster.views()[0]
            term = cluster.meta("meta-1").leadership().term
            for number, to in enumerate((LOCK, "fle", LOCK), 1):
                swapped = await operated.swap(to)
                assert (swapped.to, swapped.generation) == (to, number)
                assert swapped.seconds < 2.0
                await operated.agree(to)
                await cluster.until(lambda: cluster.leader is not None, "a leader")
                assert await operated.configuration() == configuration
                assert cluster.meta("meta-1").leadership().term > term
                term = cluster.meta("meta-1").leadership().term
                assert cluster.views()[0] == view
                assert await operated.put("limits.rate", b"%d" % number) == number + 2
                configuration = await operated.configuration()
            cluster.kill("data-1")
            await cluster.ready()
            assert cluster.views()[0].revision > view.revision
            assert all(cluster.meta(name).core.times_set_back == 0 for name in METAS)

    run(scenario, seed)


@pytest.mark.parametrize(
    ("to", "settings", "reason"),
    [
        ("fle", {}, "'fle' is the election in use already"),
        ("postgress", {}, "postgress"),
        ("postgres", {}, "dsn is missing"),
        (LOCK, {"election.simulated_lock.renew_ms": 1_500}, "must be greater than"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(to: str, settings: dict[str, object], reason: str) -> None:
    async def scenario(rng: random.Random) -> None:
        async with Operated(rng, **settings) as operated:
            view = operated.cluster.views()[0]
            for check_only in (True, False):
                with pytest.raises(ClientError, match=reason):
                    await operated.swap(to, check_only)
            assert await operated.in_use() == {"fle"}
            assert operated.cluster.views()[0] == view
            assert all(operated.cluster.meta(name)._election.beside.target is None for name in METAS)
            await operated.put("after", b"1")

    run(scenario, seed=1)


def test_who_has_no_vote_becomes_no_candidate_by_a_swap_unless_the_options_say_so() -> None:
    """Of three meta servers one has a vote in fle."""
    voters, observers = {"election.fle.members": ["meta-2"]}, ["meta-1", "meta-3"]

    async def unsaid(rng: random.Random) -> None:
        async with Operated(rng, **voters) as operated:
            with pytest.raises(ClientError, match=r"never leads in 'fle'.*observers of \[election.simulated_lock\]"):
                await operated.swap(LOCK)
            assert await operated.in_use() == {"fle"}

    async def named(rng: random.Random) -> None:
        async with Operated(rng, **voters, **{"election.simulated_lock.observers": observers}) as operated:
            await operated.swap(LOCK)
            await operated.agree(LOCK)
            await operated.cluster.until(lambda: operated.cluster.leader == "meta-2", "the leader in the lock election")
            operated.cluster.kill("meta-2")
            await asyncio.sleep(10.0)
            assert operated.cluster.leader is None, "an observer does not stand"
            await operated.cluster.start("meta-2")
            await operated.cluster.until(lambda: operated.cluster.leader == "meta-2", "the leader again")

    run(unsaid, seed=1)
    run(named, seed=1)


def test_a_leader_is_asked_to_resign_to_a_meta_server_that_is_named() -> None:
    async def scenario(rng: random.Random) -> None:
        async with Operated(rng) as operated:
            cluster = operated.cluster

            async def resign(to: str) -> None:
                assert cluster.leader is not None
                await ask_any(operated.tool, "slotreeve", [cluster.address(cluster.leader)], Resign(to))

            with pytest.raises(ClientError, match="'fle' chooses its next leader itself"):
                await resign("meta-2")
            await operated.swap(LOCK)
            await operated.agree(LOCK)
            for to in ("meta-2", "meta-3", "meta-1"):
                await cluster.until(lambda: cluster.leader is not None, "a leader")
                if cluster.leader != to:
                    await resign(to)
                    await cluster.until(lambda to=to: cluster.leader == to, to)  # type: ignore[misc]
            with pytest.raises(ClientError, match="'meta-9' cannot lead"):
                await resign("meta-9")

    run(scenario, seed=1)


def test_a_check_changes_nothing() -> None:
    async def scenario(rng: random.Random) -> None:
        async with Operated(rng) as operated:
            assert (await operated.swap(LOCK, check_only=True)).generation == 0
            assert await operated.in_use() == {"fle"}
            assert operated.store.database.row is None

    run(scenario, seed=1)


def test_a_meta_server_that_is_down_prevents_a_swap() -> None:
    async def scenario(rng: random.Random) -> None:
        async with Operated(rng) as operated:
            follower = next(name for name in METAS if name != operated.cluster.leader)
            operated.cluster.kill(follower)
            with pytest.raises(ClientError, match=follower):
                await operated.swap(LOCK)
            assert await operated.in_use() == {"fle"}
            await operated.cluster.start(follower)
            await operated.swap(LOCK)
            await operated.agree(LOCK)

    run(scenario, seed=1)


def test_a_store_with_the_state_of_another_cluster_is_refused() -> None:
    async def scenario(rng: random.Random) -> None:
        store: LockStore | None = None
        for number in (1, 2):
            operated = Operated(rng)
            if store is not None:
                operated.store.database = store.database
            store = operated.store
            async with operated:
                await operated.put("mine", b"%d" % number)
                if number == 1:
                    await operated.swap(LOCK)
                    continue
                with pytest.raises(ClientError, match="holds the meta state of another cluster"):
                    await operated.swap(LOCK)
                assert await operated.in_use() == {"fle"}
                await operated.put("after", b"1")

    run(scenario, seed=1)


def test_meta_servers_that_start_with_the_old_configuration_use_the_election_in_use() -> None:
    async def scenario(rng: random.Random) -> None:
        async with Operated(rng) as operated:
            cluster = operated.cluster
            await operated.put("limits.rate", b"100")
            await operated.swap(LOCK)
            await operated.agree(LOCK)
            configuration = await operated.configuration()
            await asyncio.sleep(10)  # no meta server runs the old one any more
            cluster.kill("meta-1")
            await cluster.start("meta-1")
            await operated.agree(LOCK)
            for name in METAS:
                cluster.kill(name)
            for name in METAS:
                await cluster.start(name)
            await operated.agree(LOCK)
            await cluster.until(lambda: cluster.leader is not None, "a leader")
            assert await operated.configuration() == configuration
            for name in METAS:
                cluster.kill(name)
            for name in METAS:
                await cluster.start(name, election__use=LOCK)
            await cluster.until(lambda: cluster.leader is not None, "a leader")
            assert await operated.configuration() == configuration
            await cluster.ready()

    run(scenario, seed=1)


def test_a_server_without_options_for_the_election_in_use_gives_up_and_says_so() -> None:
    async def scenario(rng: random.Random) -> None:
        async with Operated(rng) as operated:
            cluster = operated.cluster
            await operated.swap(LOCK)
            await operated.agree(LOCK)
            for name in METAS:
                cluster.kill(name)
            cluster.catalogue.listed.pop()
            cluster._settings.pop("election.simulated_lock.lease_ms")
            for name in METAS:
                await cluster.start(name)
            given_up = [cluster.meta(name).given_up for name in METAS]
            await cluster.until(lambda: all(end.done() for end in given_up), "all have given up")
            assert "has gone over to 'simulated_lock'" in str(given_up[0].result())

    run(scenario, seed=1)


class Writes:
    """Puts one key all the time, and remembers the last that was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged, self.begun = 0, 0

    async def run(self, operated: Operated) -> None:
        while True:
            self.begun += 1
            try:
                await operated.put("written", b"%d" % self.begun)
            except SlotreeveError:
                await asyncio.sleep(0.01)
                continue
            self.acknowledged = self.begun
            await asyncio.sleep(0.002)


async def _struck_after(rng: random.Random, milliseconds: int, kind: str) -> str:
    """Kill or freeze meta servers so long after the begin of a swap; returns the election in use in the end."""
    async with Operated(rng) as operated:
        cluster, writes = operated.cluster, Writes()
        await operated.put("limits.rate", b"100")
        view, struck = cluster.views()[0], list(METAS) if kind == "all killed" else [str(cluster.leader)]
        writing = asyncio.ensure_future(writes.run(operated))
        swapping = asyncio.ensure_future(operated.swap(LOCK))
        await asyncio.sleep(milliseconds / 1000)
        for name in struck:
            if kind == "leader frozen":
                cluster.freeze(name)
            else:
                cluster.kill(name)
        await asyncio.sleep(0.7)
        for name in struck:
            if kind == "leader frozen":
                cluster.thaw(name)
            else:
                await cluster.start(name)
        await asyncio.gather(swapping, return_exceptions=True)
        await cluster.until(lambda: cluster.leader is not None, "a leader")
        used = cluster.meta(str(cluster.leader))._election.back_end.name
        await operated.agree(used)
        await cluster.ready()
        before = writes.acknowledged
        await cluster.until(lambda: writes.acknowledged > before, "writes go on")
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        configuration = await operated.configuration()
        assert configuration["limits.rate"] == (1, b"100")
        stored = configuration["written"][1]
        assert stored is not None
        assert writes.acknowledged <= int(stored) <= writes.begun
        assert cluster.views()[0].table.epoch >= view.table.epoch
        assert all(cluster.meta(name).core.times_set_back == 0 for name in METAS)
        if used == "fle":
            await operated.swap(LOCK)  # what the first attempt has left is no hindrance
            await operated.agree(LOCK)
            assert (await operated.configuration())["limits.rate"] == (1, b"100")
        return used


MOMENTS_MS = [int(moment) for moment in os.environ.get("SLOTREEVE_SWAP_MOMENTS", "5,25,38,44,50,62").split(",")]


@pytest.mark.parametrize("kind", ["leader killed", "all killed", "leader frozen"])
def test_after_a_fault_at_any_moment_of_a_swap_exactly_one_election_is_in_force(kind: str) -> None:
    ends = []
    for milliseconds in MOMENTS_MS:

        async def scenario(rng: random.Random, at: int = milliseconds) -> None:
            ends.append(await _struck_after(rng, at, kind))

        run(scenario, seed=milliseconds)
    assert set(ends) == {"fle", LOCK}
