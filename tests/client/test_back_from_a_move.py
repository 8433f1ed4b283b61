"""A client that goes back to the server that it was leaving, because the other one died: what it ended stays ended."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.model.data_info import DataInfo
from slotreeve_client.administration import put_config
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_servers.session.records.registrations import TOMBSTONE_SECONDS
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

FROZEN = "data-3"
"""While it is frozen, no move is complete that needs one of its slots."""
SERVICES = 40


async def ban(cluster: SimulatedCluster, *names: str) -> None:
    transport = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
    orders = Orders(banned=frozenset(names))
    await put_config(transport, "slotreeve", [cluster.address("meta-1")], ORDERS_KEY, orders.encode())
    await transport.close()


def service_in(cluster: SimulatedCluster, name: str, *, is_led: bool) -> list[str]:
    """Services in slots that this data server leads; or in slots that it does not hold."""
    rows, slot_of = cluster.views()[0].table.slots, cluster.session("session-1").core.registrations.slot
    services = {f"s{n}": rows[slot_of(DataInfo(f"s{n}").id)] for n in range(SERVICES)}
    return [s for s, row in services.items() if (row.leader == name if is_led else name not in row.holders)]


@pytest.mark.parametrize("publishes_more", [True, False], ids=["a_registration_lives", "none_lives"])
def test_what_a_client_ended_at_a_server_that_died_in_a_move_does_not_come_back(publishes_more: bool) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1) as cluster:
            await cluster.ready()
            client = cluster.client("session-1", name="mover")
            await client.connected()
            ended = [client.publish(service, "1") for service in service_in(cluster, FROZEN, is_led=False)]
            assert ended
            slow = service_in(cluster, FROZEN, is_led=True)[0]
            if publishes_more:
                client.publish(slow, "1")
            else:
                client.subscribe(slow)
            await client.flush()
            cluster.freeze(FROZEN)
            await ban(cluster, "session-1")
            there, back = cluster.address("session-2"), cluster.address("session-1")
            await cluster.until(lambda: client.server == there, "it is at the other one", poll_seconds=0.001)
            for publication in ended:
                publication.unpublish()
            await asyncio.gather(*(publication.acknowledged() for publication in ended))
            cluster.kill("session-2")
            await cluster.until(lambda: client.server == back, "it is back", poll_seconds=0.001)
            cluster.thaw(FROZEN)
            await ban(cluster)
            await client.flush()
            await cluster.ready()
            await asyncio.sleep(3 * TOMBSTONE_SECONDS)
            assert list(await client.list("")) == ([DataInfo(slow).id] if publishes_more else [])

    run(scenario, seed=1)
