"""What servers count of themselves: nothing is repaired in a quiet cluster; what is lost is repaired, and counted."""

from __future__ import annotations

import asyncio
import random

from slotreeve_client.administration import counters
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

ZERO_IN_A_QUIET_CLUSTER = (
    "session_repairs",
    "follower_repairs",
    "change_gaps",
    "write_retries",
    "rejected_plans",
    "balancer_stopped",
    "state_set_back",
    "names_refused",
    "clients_refused",
    "limits_hit",
    "refused_keys",
    "loop_failures",
    "malformed_frames",
    "oversize_frames",
    "refused_hellos",
    "backpressure",
    "handler_errors",
    "history_lost",
    "unexpected_messages",
)


async def totals(cluster: SimulatedCluster) -> dict[str, int]:
    transport = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
    summed: dict[str, int] = {}
    for name in cluster.servers:
        for counter, value in (await counters(transport, "slotreeve", cluster.address(name))).items():
            summed[counter] = summed.get(counter, 0) + value
    await transport.close()
    return summed


def test_nothing_is_repaired_in_a_quiet_cluster_whatever_is_published() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            await asyncio.sleep(2)
            before = await totals(cluster)
            client = cluster.client()
            publications = [client.publish(f"s{number}", "x") for number in range(100)]
            watched = [cluster.client().subscribe(f"s{number}") for number in range(100)]
            await client.flush()
            for _ in range(20):
                for publication in publications:
                    publication.republish(str(rng.random()))
                await asyncio.sleep(1)
            after = await totals(cluster)
            assert {name: after[name] - before[name] for name in ZERO_IN_A_QUIET_CLUSTER} == dict.fromkeys(
                ZERO_IN_A_QUIET_CLUSTER, 0
            )
            assert after["registrations"] == 100
            assert after["services_watched"] == len(watched)
            assert after["slots_led"] == 16
            assert after["slots_followed"] == 16

    run(scenario, seed=1)


def test_what_a_slot_leader_or_a_follower_lost_is_repaired_and_counted() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            client = cluster.client()
            for number in range(50):
                client.publish(f"s{number}", "x")
            await client.flush()
            await asyncio.sleep(2)
            slots = cluster.data("data-1").core.slots
            lost = 0
            for slot in slots.held.values():
                lost += len(slot.store.services)
                for record in list(slot.store.records()):
                    slot.store.purge(record.data_info_id, record.register_id)
            assert lost > 10
            await asyncio.sleep(20)
            after = await totals(cluster)
            assert after["session_repairs"] > 0
            assert after["follower_repairs"] > 0
            assert after["session_repairs"] + after["follower_repairs"] >= lost
            assert after["registrations"] == 50
            assert len(await cluster.client().list()) == 50

    run(scenario, seed=2)


def test_a_session_server_that_missed_a_change_is_told_by_its_version_scan() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            publication = cluster.client().publish("s", "1")
            watched = cluster.client("session-2").subscribe("s")
            await publication.acknowledged()
            await cluster.until(lambda: watched.instances, "it is seen")
            servers = [cluster.data(name) for name in ("data-1", "data-2", "data-3")]
            for server in servers:  # what they send to sessions gets lost
                vars(server.core.changes)["_send"] = lambda audience, changes: None
            publication.republish("2")
            await publication.acknowledged()
            await asyncio.sleep(1)
            for server in servers:
                del vars(server.core.changes)["_send"]
            assert watched.instances[0].data == (b"1",)
            await cluster.until(lambda: watched.instances[0].data == (b"2",), "the change is seen", 15)

    run(scenario, seed=3)
