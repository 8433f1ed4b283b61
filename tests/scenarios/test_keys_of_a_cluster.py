"""A whole cluster whose processes have keys: who holds one may do what it is for, and nobody may do more."""

from __future__ import annotations

import random

import pytest
from slotreeve.errors import Refused, RegistrationError, Unreachable
from slotreeve.keys import KeyRing
from slotreeve.ports.transport import dialled
from slotreeve_client.administration import change_orders, change_overrides, change_tokens, cluster_view, put_config
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.live_settings import SETTINGS_KEY
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.tokens import TOKENS_KEY
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_gateway import SimulatedGateway
from slotreeve_simulator.simulated_keys import SimulatedTrust
from slotreeve_transport_memory.transport import MemoryTransport


class KeyedCluster(SimulatedCluster):
    """A cluster in which every process has a key, and trusts all but those in ``revoked``."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, meta=3, data=2, session=2)
        self.trust = SimulatedTrust()

    def keys(self, name: str) -> KeyRing | None:
        return self.trust.keys_of(name)


def place(cluster: SimulatedCluster, transport: MemoryTransport, name: str) -> str:
    return dialled(transport, name, cluster.address(name))


def test_clients_publish_and_subscribe_and_find_each_other_after_deaths() -> None:
    async def main(rng: random.Random) -> None:
        async with KeyedCluster(rng) as cluster:
            provider, consumer = cluster.client("session-1"), cluster.client("session-2")
            provider.publish("com.example.Greeter", b"here")
            seen = consumer.subscribe("com.example.Greeter")
            await cluster.until(lambda: seen.count == 1, "the subscriber sees it")
            for victim in ("session-1", "data-1", "meta-1"):
                cluster.kill(victim)
            await cluster.until(lambda: provider.server is not None and "session-2@" in provider.server, "it moves")
            await cluster.until(lambda: seen.count == 1, "it is kept")
            assert all("@" in node.address for node in cluster.session("session-2").view.data)

    run(main)


def test_a_process_without_a_trusted_key_reaches_no_server() -> None:
    async def main(rng: random.Random) -> None:
        async with KeyedCluster(rng) as cluster:
            bare = MemoryTransport(cluster.clock("meta-1"), "stranger", cluster.network)
            other = SimulatedTrust()
            forged = MemoryTransport(cluster.clock("meta-1"), "data-9", cluster.network, keys=other.keys_of("data-9"))
            for name in cluster.servers:
                with pytest.raises(Unreachable):
                    await cluster_view(bare, "slotreeve", [cluster.address(name)])
                with pytest.raises(Refused, match="not trusted there"):
                    await cluster_view(forged, "slotreeve", [place(cluster, forged, name)])

    run(main)


def test_a_client_neither_orders_anything_nor_reads_what_is_for_gateways() -> None:
    async def main(rng: random.Random) -> None:
        async with KeyedCluster(rng) as cluster:
            client = cluster.client()
            tool = cluster.transport("night-tool", of=client_name(cluster))
            metas = [place(cluster, tool, name) for name in cluster.servers if name.startswith("meta")]
            await put_config(tool, "slotreeve", metas, "example.greeting", b"hello")
            await change_tokens(tool, "slotreeve", metas, lambda tokens: tokens)
            await put_config(tool, "slotreeve", metas, TOKENS_KEY, b"{}")
            shop = cluster.transport("shop", of=client_name(cluster))
            with pytest.raises(Refused, match="'shop' is that of a client, not of a tool"):
                await put_config(shop, "slotreeve", metas, "example.greeting", b"mine")
            seen = {key: client.watch_config(key) for key in ("example.greeting", TOKENS_KEY)}
            await cluster.until(lambda: seen["example.greeting"].value == b"hello", "it is told")
            with pytest.raises(RegistrationError, match="only gateways and tools read it"):
                await seen[TOKENS_KEY].ready()
            assert seen[TOKENS_KEY].value is None

    run(main)


def test_a_client_reads_no_entry_of_slotreeve_s_own_but_the_overrides_and_asking_is_written_down() -> None:
    async def main(rng: random.Random) -> None:
        cluster = KeyedCluster(rng)
        async with cluster:
            client = cluster.client()
            tool = cluster.transport("night-tool", of=client_name(cluster))
            metas = [place(cluster, tool, name) for name in cluster.servers if name.startswith("meta")]
            await change_orders(tool, "slotreeve", metas, lambda orders: Orders(frozenset({"data-9"})))
            await change_overrides(tool, "slotreeve", metas, lambda overrides: overrides)
            seen = {key: client.watch_config(key) for key in (ORDERS_KEY, SETTINGS_KEY, "slotreeve.anything")}
            for watch in seen.values():
                with pytest.raises(RegistrationError, match="only gateways and tools read it"):
                    await watch.ready()
            assert all(watch.value is None for watch in seen.values())

    run(main)


def client_name(cluster: SimulatedCluster) -> str:
    return next(iter(cluster.clients))


def test_a_gateway_reads_the_tokens() -> None:
    async def main(rng: random.Random) -> None:
        async with KeyedCluster(rng) as cluster:
            gateway = SimulatedGateway(cluster, "gateway-1")
            await gateway.put_config(TOKENS_KEY, b"{}")
            watch = gateway.client.watch_config(TOKENS_KEY)
            await cluster.until(lambda: watch.value == b"{}", "the gateway has them")

    run(main)
