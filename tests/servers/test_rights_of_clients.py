"""What a client may do by its key: in a whole cluster, for everything that clients do."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable

import pytest
from slotreeve.errors import ClientError, RegistrationError
from slotreeve_client import Client
from slotreeve_conformance.virtual_time import run

from tests.scenarios.keyed_cluster import KeyedCluster

OURS, OTHERS, SECRET = "com.example.Shop", "com.example.Till", "com.secret.Vault"
RIGHTS = (f"register:{OURS}", "read:com.example.*")


def play(scenario: Callable[[KeyedCluster, Client, Client], Awaitable[None]]) -> None:
    async def main(rng: random.Random) -> None:
        cluster = KeyedCluster(rng, RIGHTS)
        async with cluster:
            other = cluster.client(name="other")
            for service in (OURS, OTHERS, SECRET):
                other.publish(service, b"others")
            await other.flush()
            await scenario(cluster, cluster.client(name="shop"), other)

    run(main)


def test_it_registers_what_it_may_and_is_told_of_what_it_may_not() -> None:
    async def scenario(cluster: KeyedCluster, shop: Client, other: Client) -> None:
        allowed, refused = shop.publish(OURS, b"ours"), shop.publish(OTHERS, b"ours")
        await cluster.until(lambda: allowed.is_acknowledged, "one is stored")
        with pytest.raises(RegistrationError, match=f"the key of 'shop' lacks the right register:{OTHERS}"):
            refused.check()
        assert allowed.is_acknowledged
        seen = {service: other.subscribe(service) for service in (OURS, OTHERS)}
        await cluster.until(lambda: seen[OURS].count == 2, "what it may register is seen")
        await seen[OTHERS].ready()
        assert seen[OTHERS].count == 1

    play(scenario)


def test_it_sees_what_it_may_and_is_told_of_what_it_may_not() -> None:
    async def scenario(cluster: KeyedCluster, shop: Client, other: Client) -> None:
        told: list[object] = []
        allowed, refused = shop.subscribe(OTHERS), shop.subscribe(SECRET, told.append)
        await allowed.ready()
        with pytest.raises(RegistrationError, match=f"the key of 'shop' lacks the right read:{SECRET}"):
            await refused.ready()
        assert (allowed.count, refused.count, refused.has_ended, told) == (1, 0, True, [])
        other.publish(SECRET, b"more")
        other.publish(OTHERS, b"more")
        await cluster.until(lambda: allowed.count == 2, "what it may see is pushed")
        assert (refused.count, told) == (0, [])
        assert [provider.data for provider in await shop.get(OURS)] == [(b"others",)]
        with pytest.raises(ClientError, match=f"lacks the right read:{SECRET}"):
            await shop.get(SECRET)
        assert {name.partition("#")[0] for name in await shop.list("")} == {OURS, OTHERS}
        assert {name.partition("#")[0] for name in await other.list("")} == {OURS, OTHERS, SECRET}

    play(scenario)


def test_it_keeps_leases_of_what_it_may_register_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(cluster: KeyedCluster, shop: Client, other: Client) -> None:
        await shop.leases.register(OURS, "one", b"x", ttl_seconds=30)
        with pytest.raises(ClientError, match=f"lacks the right register:{OTHERS}"):
            await shop.leases.register(OTHERS, "one", b"x", ttl_seconds=30)
        await other.leases.register(OTHERS, "two", b"x", ttl_seconds=30)
        for act in (shop.leases.renew, shop.leases.deregister):
            with pytest.raises(ClientError, match=f"lacks the right register:{OTHERS}"):
                await act(OTHERS, "two")
        assert len(await other.get(OTHERS)) == 2

    play(scenario)
    denials = [record.getMessage() for record in caplog.records if "is denied" in record.getMessage()]
    assert any(line.startswith("key shop") and f"lacks the right register:{OTHERS}" in line for line in denials)


def test_rights_that_change_count_from_its_next_connection_on_which_follows_at_once() -> None:
    async def scenario(cluster: KeyedCluster, shop: Client, other: Client) -> None:
        shop.publish(OURS, b"ours")
        seen = other.subscribe(OURS)
        await cluster.until(lambda: seen.count == 2, "it is registered")
        cluster.trust = cluster.trust.with_rights(("read:*",))
        await cluster.until(lambda: seen.count == 1, "what it may not register any more ends", 2.0)
        vault = shop.subscribe(SECRET)
        await vault.ready()
        assert vault.count == 1

    play(scenario)


def test_what_is_refused_does_not_hold_up_the_rest() -> None:
    async def scenario(cluster: KeyedCluster, shop: Client, other: Client) -> None:
        for number in range(500):
            shop.subscribe(f"com.secret.{number}")
            shop.publish(f"com.secret.{number}", b"x")
        allowed = shop.subscribe(OTHERS)
        shop.publish(OURS, b"ours")
        await allowed.ready()
        await shop.flush()
        assert len(await other.get(OURS)) == 2

    play(scenario)
