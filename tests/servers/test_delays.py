"""How long changes take in a whole cluster on virtual time, and who is named when they come late."""

from __future__ import annotations

import asyncio
import random

from slotreeve.clock import LoopClock
from slotreeve.model.data_info import DataInfo
from slotreeve.model.nodes import Role
from slotreeve_client.administration import put_config
from slotreeve_client.condition import cluster_condition
from slotreeve_client.delays import DelaysReport, cluster_delays, delays_report
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.delay_messages import GetDelays
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

from tests.servers.recording_outbox import a_peer


class Operator:
    """Asks a simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.transport = MemoryTransport(LoopClock(), "operator", cluster.network)
        self.metas = [cluster.address("meta-1")]

    async def delays(self, service: str = "") -> DelaysReport:
        return delays_report(await cluster_delays(self.transport, "slotreeve", self.metas, service))

    async def problems(self) -> list[str]:
        return (await cluster_condition(self.transport, "slotreeve", self.metas)).problems()

    async def order(self, orders: Orders) -> None:
        await put_config(self.transport, "slotreeve", self.metas, ORDERS_KEY, orders.encode())
        await asyncio.sleep(1.0)


def test_in_a_quiet_cluster_every_stage_is_known_nobody_lags_and_all_have_the_newest_version() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2, session=2) as cluster:
            await cluster.ready()
            publication = cluster.client("session-1").publish("a.Service", "0")
            watched = [cluster.client(f"session-{1 + n % 2}").subscribe("a.Service") for n in range(4)]
            await cluster.until(lambda: all(one.instances for one in watched), "all see it")
            for number in range(20):
                publication.republish(str(1 + number))
                await asyncio.sleep(0.5)
            operator = Operator(cluster)
            found = await operator.delays("a.Service")
            stages = {stage.stage: stage for stage in found.stages}
            assert [*stages] == ["accept", "store", "announce", "carry", "push_wait", "push_age", "receipt"]
            assert stages["push_age"].count == 80
            assert all(stages[name].count > 0 for name in stages)
            assert (stages["accept"].max_ms or 0) >= (stages["store"].max_ms or 0)
            assert (stages["push_age"].max_ms or 0) < 50
            assert (found.burning, found.lagging, found.silent) == ([], [], {})
            assert (found.delay_ms, found.share) == (500.0, 0.999)
            leaders = [one for one in found.service if one.is_leader]
            assert len(leaders) == 1
            assert {(one.server, one.subscribers) for one in found.service if not one.is_leader} == {
                ("session-1", 2),
                ("session-2", 2),
            }
            assert all(one.is_newest for one in found.service)
            assert all(one.last_ms and one.last_ms[0] < 50 for one in found.service if not one.is_leader)
            assert {(one.pushed, one.late) for one in found.windows} == {(40, 0)}

    run(scenario, seed=1)


def test_a_stopped_push_burns_the_objective_and_is_the_reason_that_status_gives() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=1) as cluster:
            await cluster.ready()
            publication = cluster.client().publish("a.Service", "0")
            consumer = cluster.client(name="consumer")
            watched = consumer.subscribe("a.Service")
            await cluster.until(lambda: watched.instances, "it is seen")
            operator = Operator(cluster)
            await operator.order(Orders(push_stopped=True))
            publication.republish("1")
            await asyncio.sleep(3.0)
            (lagging,) = (await operator.delays("a.Service")).lagging
            assert (lagging.who, lagging.service) == (consumer.client_id, "a.Service")
            assert lagging.why == "an order stops pushes to it"
            assert 2.5 < lagging.waits_s < 3.5
            assert (await operator.delays("another.Service")).lagging == []
            await asyncio.sleep(120.0)
            late, worst = [said for said in await operator.problems() if "late" in said or "waited" in said]
            assert late.startswith("session-1 pushes changes late: ")
            assert late.endswith(" in the last 5 min took longer than 500 ms, of which 0.1 % may.")
            assert worst.startswith(f"{consumer.client_id} at ")
            assert worst.endswith("a change of a.Service, says session-1: an order stops pushes to it.")
            await operator.order(Orders())
            await cluster.until(lambda: watched.instances[0].data == (b"1",), "it is pushed")
            assert (await operator.delays()).lagging == []

    run(scenario, seed=2)


def test_a_change_that_waits_for_another_leader_of_its_slot_is_as_old_as_its_wait() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2, session=2) as cluster:
            await cluster.ready()
            publication = cluster.client("session-1").publish("a.Service", "0")
            watched = cluster.client("session-2").subscribe("a.Service")
            await cluster.until(lambda: watched.instances, "it is seen")
            operator = Operator(cluster)
            (leader,) = [one.server for one in (await operator.delays("a.Service")).service if one.is_leader]
            cluster.freeze(leader)
            begun = asyncio.get_running_loop().time()
            publication.republish("1")
            await asyncio.sleep(1.0)
            waiting = [one for one in (await operator.delays("a.Service")).lagging if one.who.startswith("slot ")]
            assert [(one.told_by, one.why) for one in waiting] == [
                ("session-1", f"writes wait: {leader} has not answered")
            ]
            await cluster.until(lambda: watched.instances[0].data == (b"1",), "another server leads", 60)
            took_ms = 1000 * (asyncio.get_running_loop().time() - begun)
            await asyncio.sleep(2.0)
            found = await operator.delays("a.Service")
            (age,) = [stage for stage in found.stages if stage.stage == "push_age"]
            assert took_ms > 2000
            assert 0.95 * took_ms < (age.max_ms or 0) <= took_ms
            (held,) = [one for one in found.service if one.server == "session-2"]
            assert held.worst_ms is not None
            assert held.worst_ms[0] > 0.9 * took_ms, "it waited before it came to the subscriber's server"

    run(scenario, seed=3)


def test_a_session_server_that_does_not_read_is_named_by_the_leader() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=2) as cluster:
            await cluster.ready()
            publication = cluster.client("session-1").publish("a.Service", "0")
            watched = cluster.client("session-2").subscribe("a.Service")
            await cluster.until(lambda: watched.instances, "it is seen")
            await asyncio.sleep(2.0)
            cluster.freeze("session-2")
            publication.republish("1")
            await asyncio.sleep(1.0)
            found = await Operator(cluster).delays()
            assert [(one.who, one.told_by, one.why) for one in found.lagging] == [
                ("session-2", "data-1", "it has not read the changes that were sent to it")
            ]
            assert [*found.silent] == ["session-2"]

    run(scenario, seed=4)


def test_of_a_service_only_its_own_slot_is_named_among_those_that_wait() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2, session=1) as cluster:
            await cluster.ready()
            client = cluster.client()
            publications = {name: client.publish(name, "0") for name in (f"s{number}" for number in range(40))}
            watched = [cluster.client().subscribe(name) for name in publications]
            await cluster.until(lambda: all(one.instances for one in watched), "all are seen")
            cluster.freeze("data-1")
            for publication in publications.values():
                publication.republish("1")
            await asyncio.sleep(1.0)

            def lagging(service: str) -> set[str]:
                page = cluster.session("session-1").core.delays.answer(a_peer("tool", Role.TOOL), GetDelays(service))
                return {one.name for one in page.lagging}

            all_of_them = lagging("")
            assert len(all_of_them) > 2
            of_each = {name: lagging(DataInfo(name).id) for name in publications}
            assert max(map(len, of_each.values())) == 1
            assert set().union(*of_each.values()) == all_of_them

    run(scenario, seed=5)
