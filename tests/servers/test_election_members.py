"""Other members of an fle election on a running cluster, in virtual time: a swap to a second fle election."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from slotreeve.errors import ClientError
from slotreeve_client.administration import get_configs, put_config
from slotreeve_client.election_swap import all_use, swap_election
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.meta_messages import Stopping
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

NEXT = "fle-next"


def members_of(first: Sequence[str], then: Sequence[str]) -> dict[str, object]:
    """The settings of a cluster whose fle election has the members ``first``, and which may go over to ``then``."""
    return {
        "election.fle.members": list(first),
        f"election.{NEXT}.plugin": "fle",
        f"election.{NEXT}.members": list(then),
        f"election.{NEXT}.data_dir": "{node}.next",
        f"election.{NEXT}.port_shift": 1,
    }


class Operated:
    """A cluster with stand-by meta servers, a client, and a tool of its operator."""

    def __init__(self, rng: random.Random, meta: int, settings: dict[str, object]) -> None:
        self.cluster = SimulatedCluster(rng, meta=meta, settings=settings)
        self.metas = [self.cluster.address(f"meta-{number + 1}") for number in range(meta)]

    async def __aenter__(self) -> Operated:
        await self.cluster.__aenter__()
        self.tool = MemoryTransport(self.cluster.process_clock("operator"), "operator", self.cluster.network)
        self.client = self.cluster.client()
        self.client.publish("com.example.Greeter", "10.0.0.1:8080")
        self.subscription = self.client.subscribe("com.example.Greeter")
        await self.client.flush()
        await self.subscription.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.tool.close()
        await self.cluster.__aexit__(None, None, None)

    async def go_over(self, without: Sequence[str] = ()) -> None:
        await swap_election(self.tool, "slotreeve", self.metas, NEXT, without=without)
        await all_use(self.tool, "slotreeve", self.metas, NEXT)
        await self.cluster.until(lambda: self.cluster.leader is not None, "a leader of the new members")

    async def put(self, value: bytes) -> None:
        alive = [self.cluster.address(name) for name in self.cluster.servers if name.startswith("meta-")]
        await put_config(self.tool, "slotreeve", alive, "limits.rate", value)
        entries = await get_configs(self.tool, "slotreeve", alive)
        assert [entry.value for entry in entries if entry.key == "limits.rate"] == [value]


@pytest.mark.parametrize("seed", seeds(1))
def test_two_meta_servers_are_added_and_count_from_then_on(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        first, then = [f"meta-{n}" for n in (1, 2, 3)], [f"meta-{n}" for n in (1, 2, 3, 4, 5)]
        async with Operated(rng, 5, members_of(first, then)) as operated:
            cluster = operated.cluster
            await operated.put(b"100")
            view = cluster.views()[0]
            await operated.go_over()
            assert cluster.views()[0] == view
            await operated.put(b"200")
            for name in first[:2]:  # three of five are left; of the members before, one of three
                cluster.kill(name)
            await cluster.until(lambda: cluster.leader is not None, "a leader among those that are left")
            await operated.put(b"300")
            assert operated.client.statistics().reconnections == 0
            assert len(operated.subscription.instances) == 1

    run(scenario, seed)


@pytest.mark.parametrize("seed", seeds(1))
def test_two_meta_servers_are_removed_and_their_deaths_do_not_count(seed: int) -> None:
    async def scenario(rng: random.Random) -> None:
        first, then = [f"meta-{n}" for n in (1, 2, 3, 4, 5)], [f"meta-{n}" for n in (3, 4, 5)]
        async with Operated(rng, 5, members_of(first, then)) as operated:
            cluster = operated.cluster
            await operated.put(b"100")
            await operated.go_over()
            for name in ("meta-1", "meta-2", "meta-3"):  # of the members before, three of five
                cluster.kill(name)
            await cluster.until(lambda: cluster.leader is not None, "a leader among those that are left")
            assert cluster.leader in then
            await operated.put(b"200")

    run(scenario, seed)


def test_a_meta_server_that_is_no_member_never_leads_and_holds_the_state() -> None:
    async def scenario(rng: random.Random) -> None:
        first = [f"meta-{n}" for n in (1, 2, 3)]
        async with Operated(rng, 4, members_of(first, first)) as operated:
            cluster = operated.cluster
            await operated.put(b"100")
            assert cluster.meta("meta-4").leadership().leader in first
            cluster.kill("meta-1")
            cluster.kill("meta-2")
            await cluster.until(lambda: cluster.leader is None, "the end of the lead")
            await asyncio.sleep(5.0)
            assert cluster.leader is None
            await cluster.start("meta-1")
            await cluster.until(lambda: cluster.leader is not None, "a leader")
            await operated.put(b"200")

    run(scenario, seed=1)


def test_a_running_cluster_learns_of_new_meta_servers_by_a_restart_of_one_after_the_other() -> None:
    async def scenario(rng: random.Random) -> None:
        async with Operated(rng, 3, {}) as operated:
            cluster = operated.cluster
            first = [f"meta-{n}" for n in (1, 2, 3)]
            then = [*first, "meta-4"]
            changed = {**members_of(first, then), "cluster.meta": {name: cluster.address(name) for name in then}}
            for name in then:
                if name in first:
                    await cluster.stop(name, Stopping.FOR_A_RESTART)
                await cluster.start(name, 0, **changed)
                await cluster.until(lambda: cluster.leader is not None, "a leader")
            operated.metas = [cluster.address(name) for name in then]
            await operated.go_over()
            cluster.kill("meta-1")
            await cluster.until(lambda: cluster.leader is not None, "a leader")
            await operated.put(b"1")
            assert operated.client.statistics().reconnections == 0

    run(scenario, seed=1)


def test_meta_servers_whose_files_name_different_members_are_refused_before_anything_changes() -> None:
    async def scenario(rng: random.Random) -> None:
        names = [f"meta-{n}" for n in (1, 2, 3)]
        async with Operated(rng, 3, members_of(names, names)) as operated:
            cluster = operated.cluster
            other = next(name for name in names if name != cluster.leader)
            await cluster.stop(other, Stopping.FOR_A_RESTART)
            await cluster.start(other, 0, **members_of(names, ["meta-1", "meta-2"]))
            reason = (
                f"{other}: the options of 'fle-next' are not those of the leader: members meta-1, meta-2; lease_ms 350"
            )
            for check_only in (True, False):
                with pytest.raises(ClientError, match=reason):
                    await swap_election(operated.tool, "slotreeve", operated.metas, NEXT, check_only)
            await operated.put(b"1")

    run(scenario, seed=1)


def test_members_that_are_no_meta_servers_are_refused_by_name() -> None:
    async def scenario(rng: random.Random) -> None:
        names = [f"meta-{n}" for n in (1, 2, 3)]
        async with Operated(rng, 3, members_of(names, ["meta-1", "meta-9"])) as operated:
            with pytest.raises(ClientError, match=r"'meta-9' is no meta server; \[cluster.meta\] has meta-1, meta-2"):
                await swap_election(operated.tool, "slotreeve", operated.metas, NEXT)

    run(scenario, seed=1)


def test_a_dead_meta_server_is_removed_and_does_no_harm_when_it_comes_back() -> None:
    async def scenario(rng: random.Random) -> None:
        first, then = [f"meta-{n}" for n in (1, 2, 3)], ["meta-1", "meta-2"]
        async with Operated(rng, 3, members_of(first, then)) as operated:
            cluster = operated.cluster
            cluster.kill("meta-3")
            await cluster.until(lambda: cluster.leader in then, "a leader that lives")
            operated.metas.pop()
            for without, reason in (((), "meta-3"), (("meta-9",), "'meta-9' is none of the other meta servers")):
                with pytest.raises(ClientError, match=reason):
                    await swap_election(operated.tool, "slotreeve", operated.metas, NEXT, without=without)
            await operated.go_over(without=["meta-3"])
            await cluster.start("meta-3")
            operated.metas.append(cluster.address("meta-3"))
            await all_use(operated.tool, "slotreeve", operated.metas, NEXT)
            assert cluster.leader in then
            cluster.kill("meta-3")
            await asyncio.sleep(2.0)
            assert cluster.leader in then
            await operated.put(b"1")

    run(scenario, seed=1)
