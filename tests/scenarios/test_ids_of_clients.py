"""A client with a key of its own takes no other one's id, and writes nothing in its place (decision 59)."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.errors import Refused
from slotreeve.model.data_info import DataInfo
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Connection, Hello
from slotreeve.ports.transport import dialled
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.client_messages import Publish, Rejected, ReplayEnded, Sessions
from slotreeve_protocol.lease_messages import LeasesKnown, LeaseTerms, RegisterLeases
from slotreeve_protocol.leases import lease_suffix

from tests.scenarios.keyed_cluster import KeyedCluster
from tests.servers.node_scene import Reader

OURS, THEIRS = "com.example.Shop", "com.bank.Till"


class OneSlot(KeyedCluster):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, (f"register:{OURS}", f"read:{OURS}"), cluster__slots=1)

    async def as_shop(self, node: str, handler: Reader) -> Connection:
        """A connection with the key of ``shop`` under this id."""
        transport = self.transport("shop", of="session-1")
        place = dialled(transport, "session-1", self.address("session-1"))
        return await transport.connect(place, Hello("slotreeve", node, Role.CLIENT, f"{node}@1"), handler, 2.0)


def test_nobody_connects_under_the_id_of_a_client_with_another_key() -> None:
    async def main(rng: random.Random) -> None:
        cluster = OneSlot(rng)
        async with cluster:
            victim = cluster.client(name="bank")
            assert victim.client_id.startswith("bank/")
            for node in (victim.client_id, "bank/1", "bank", "shopper/1", "1", "shop", "shop-2/1"):
                with pytest.raises(Refused, match="begins with 'shop/'"):
                    await cluster.as_shop(node, Reader())

    run(main)


def test_a_tombstone_with_the_register_id_of_another_client_hides_nothing_of_it() -> None:
    async def main(rng: random.Random) -> None:
        cluster = OneSlot(rng)
        async with cluster:
            victim, reader = cluster.client("session-2", name="bank"), cluster.client("session-2", name="third")
            first = victim.publish(THEIRS, b"one")
            await victim.leases.register(THEIRS, "till", b"leased", ttl_seconds=600)
            seen = reader.subscribe(THEIRS)
            await cluster.until(lambda: seen.count == 2, "both are seen")
            told = Reader()
            connection = await cluster.as_shop("shop/1", told)
            await cluster.until(lambda: any(isinstance(m, Sessions) for m in told.received_messages), "it is let in")
            process = cluster.session("session-1").process_id
            later = [f"{victim.client_id}-{number}" for number in range(2, 6)]
            whole, ours = DataInfo.parse(THEIRS).id, DataInfo.parse(OURS).id
            connection.send(Publish(1, [Publisher("shop/1-1", ours, 1, 1, process, "", (b"ours",))]))
            alike = ("shop-2/1-1", "shop/1", "shop/12-1")
            for register_id in (first.register_id, *later, *alike, "till" + lease_suffix(whole)):
                record = Publisher(register_id, ours, 2**60, 2**40, process, "", None)
                connection.send(Publish(1, [record]))
            await asyncio.sleep(2)
            assert sum(isinstance(message, Rejected) for message in told.received_messages) == 6 + len(alike)
            victim.publish(THEIRS, b"two")
            await victim.leases.register(THEIRS, "till", b"again", ttl_seconds=600)
            await cluster.until(lambda: seen.count == 3, "what it registers then is seen")
            assert {provider.data[0] for provider in seen.instances} == {b"one", b"two", b"again"}

    run(main)


def test_a_lease_of_another_service_under_the_same_id_ends_nothing() -> None:
    async def main(rng: random.Random) -> None:
        cluster = OneSlot(rng)
        async with cluster:
            victim = cluster.client("session-2", name="bank")
            await victim.leases.register(THEIRS, "till", b"leased", ttl_seconds=600)
            seen = victim.subscribe(THEIRS)
            await cluster.until(lambda: seen.count == 1, "it is seen")
            connection = await cluster.as_shop("shop/1", Reader())
            for instance in range(50):
                service = DataInfo.parse(f"{OURS}#@#i{instance}#@#DEFAULT_GROUP").id
                answer = await connection.ask(RegisterLeases([LeaseTerms(service, "till", "", (b"x",), 1_000)]), 2.0)
                assert isinstance(answer, LeasesKnown), answer
            await asyncio.sleep(30)
            assert seen.count == 1

    run(main)


async def publishes_and_leaves(cluster: OneSlot, record: Publisher) -> None:
    told = Reader()
    connection = await cluster.as_shop("shop/1", told)
    await cluster.until(lambda: told.received_messages, "it is let in")
    connection.send(Publish(1, [record]))
    await asyncio.sleep(0.1)
    connection.close("it has gone")


def test_one_register_id_in_two_services_over_two_connections_leaves_nothing_behind() -> None:
    async def main(rng: random.Random) -> None:
        cluster = OneSlot(rng)
        async with cluster:
            services = [OURS, DataInfo.parse(f"{OURS}#@#other#@#DEFAULT_GROUP").id]
            reader = cluster.client("session-2", name="bank")
            seen = [reader.subscribe(service) for service in services]
            process = cluster.session("session-1").process_id
            for service in services:
                record = Publisher("shop/1-1", DataInfo.parse(service).id, 1, 1, process, "", (b"x",))
                await publishes_and_leaves(cluster, record)
            assert [each.count for each in seen] == [1, 1]
            last = await cluster.as_shop("shop/1", Reader())
            last.send(ReplayEnded())
            await asyncio.sleep(0.1)
            last.close("it has gone")
            await cluster.until(lambda: not any(each.count for each in seen), "both have ended", 10)
            for _ in range(8):
                await asyncio.sleep(100)  # longer than tombstones are kept
                assert [each.count for each in seen] == [0, 0]
            kept = [store.size for store in cluster.session("session-1").core.registrations.stores.values()]
            assert sum(kept) == 0

    run(main)
