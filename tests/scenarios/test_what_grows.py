"""Servers that run for years: what comes and goes leaves nothing behind."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterable

from slotreeve_client import Client
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.scenarios.holdings import growing, holdings

ROUNDS, WARM = 7, 2
"""So many rounds, of which the first ones only fill what has a bound."""
CLIENTS = 12
BOUNDED = (
    *("Ledger._entries", "Ledger._chains"),  # until the next snapshot of the meta state
    "Registrations._known_slots",  # emptied where it is full
    *("FollowedLeaders._ended", "UnreadableSlots._ended"),  # the newest ones
    "PushGroup._history",  # as long as what it is about
)
"""What grows for a while, and has a bound that is tested elsewhere."""
UNTIL_FORGOTTEN = 190.0
"""Seconds after which nothing need be known of what has ended."""


async def come(cluster: SimulatedCluster, number: int) -> list[Client]:
    """Clients whose names and services nobody has had before do all that clients do."""
    clients = [cluster.client(name=f"client-{number}-{one}") for one in range(CLIENTS)]
    for one, client in enumerate(clients):
        client.publish(f"own.{number}.{one}", "a")
        client.publish(f"shared.{one % 4}", "b")
        for service in (f"own.{number}.{one}", f"shared.{(one + 1) % 4}", f"nobody.{number}.{one}"):
            client.subscribe(service, lambda _subscription: None)
        client.watch_config(f"key.{number}.{one}")
    await asyncio.gather(*(client.flush() for client in clients))
    for one, client in enumerate(clients):
        await client.get(f"shared.{one % 4}")
        await client.get(f"absent.{number}.{one}")
        await client.list(f"own.{number}")
        lease = f"lease-{number}-{one}"
        for service in (f"leased.{number}", "leased"):
            await client.leases.register(service, lease, "c", ttl_seconds=5.0)
        assert await client.leases.renew("leased", lease, f"unknown-{number}-{one}") == {f"unknown-{number}-{one}"}
        if one % 2:
            await client.leases.deregister("leased", lease)
    return clients


async def go(cluster: SimulatedCluster, clients: Iterable[Client]) -> None:
    """Some close, some are killed, some freeze and are killed only when they have been lost for long."""
    names = {client: name for name, client in cluster.clients.items()}
    for one, client in enumerate(clients):
        match one % 3:
            case 0:
                await client.close()
                del cluster.clients[names[client]]
            case 1:
                cluster.kill(names[client])
            case 2:
                cluster.freeze(names[client])
    await asyncio.sleep(UNTIL_FORGOTTEN / 2)
    for name in [names[client] for one, client in enumerate(clients) if one % 3 == 2]:
        cluster.thaw(name)
        cluster.kill(name)
    await asyncio.sleep(UNTIL_FORGOTTEN)


def test_what_comes_and_goes_leaves_nothing_behind_in_servers_and_clients() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            stays = [cluster.client(name=f"stays-{one}") for one in range(2)]
            for one, client in enumerate(stays):
                client.publish(f"shared.{one}", "d")
                for service in range(4):
                    client.subscribe(f"shared.{service}", lambda _subscription: None)
            processes = {**cluster.servers, **dict(zip(("stays-0", "stays-1"), stays, strict=True))}
            looks: dict[str, list[Counter[str]]] = defaultdict(list)
            for number in range(ROUNDS):
                for name in (f"data-{10 + number}", f"session-{10 + number}"):
                    await cluster.start(name)
                await cluster.ready()
                clients = await come(cluster, number)
                await cluster.stop(f"data-{10 + number}")
                cluster.kill(f"session-{10 + number}")
                await asyncio.sleep(10.0)
                await go(cluster, clients)
                await cluster.ready()
                together: dict[str, Counter[str]] = defaultdict(Counter)
                for name, process in processes.items():
                    together[name.partition("-")[0]] += holdings(process)
                for role, held in together.items():
                    looks[role].append(held)
            grown = {
                f"{role}: {place}": sizes
                for role, found in looks.items()
                for place, sizes in growing(found[WARM:]).items()
                if not place.startswith(BOUNDED)
            }
            assert grown == {}
            assert looks["data"][-1]["HeldSlots.held"], "or nothing is looked at"

    run(scenario, seed=1)
