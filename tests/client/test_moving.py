"""Clients move from a session server that stops, on a simulated cluster: no view shows fewer instances."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve_client import Subscription
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.meta_messages import Stopping
from slotreeve_simulator.simulated_cluster import SimulatedCluster

PROVIDERS = 8
REGISTRATIONS = 40
SERVICES = 10


@pytest.mark.parametrize("delay_seconds", [0.0, 0.1, 0.49], ids=["fast", "slow", "very_slow"])
@pytest.mark.parametrize("how", [Stopping.FOR_GOOD, Stopping.FOR_A_RESTART], ids=["for_good", "for_a_restart"])
def test_no_view_shows_fewer_instances_while_a_session_server_stops(how: Stopping, delay_seconds: float) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            providers = [cluster.client("session-1", name=f"provider-{number}") for number in range(PROVIDERS)]
            consumers = [cluster.client("session-1", name=f"consumer-{number}") for number in range(2)]
            for provider in providers:
                for number in range(REGISTRATIONS):
                    provider.publish(f"com.example.S{number % SERVICES}", str(number))
            await asyncio.gather(*(provider.flush() for provider in providers))
            fewest: list[int] = []

            def changed(subscription: Subscription) -> None:
                fewest.append(len(subscription.instances))

            subscriptions = [c.subscribe(f"com.example.S{n}", changed) for c in consumers for n in range(SERVICES)]
            await asyncio.gather(*(subscription.ready() for subscription in subscriptions))
            whole = PROVIDERS * REGISTRATIONS // SERVICES
            await cluster.until(lambda: all(len(s.instances) == whole for s in subscriptions), "every view is complete")
            fewest.clear()
            clients = [*providers, *consumers]
            await cluster.client("session-1", name="straggler").connected()
            cluster.freeze("straggler")  # session-1 waits for it
            assert any(client.server == cluster.address("session-1") for client in clients)

            def delay(source: str, target: str) -> float:
                ends = f"{source} {target}"
                is_slow = "session-2" in ends and ("provider" in ends or "consumer" in ends)
                return delay_seconds * rng.uniform(0.8, 1.0) if is_slow else 0.0

            cluster.network.delay_seconds = delay
            await cluster.stop("session-1", how)
            await asyncio.sleep(10)
            extra = cluster.client("session-2")
            extra.publish("com.example.S0", "later")
            await extra.flush()
            await asyncio.sleep(2)
            assert all(client.server == cluster.address("session-2") for client in clients)
            assert min(fewest) >= whole
            assert {len(s.instances) for s in subscriptions} == {whole, whole + 1}

    run(scenario, seed=3)


def test_a_client_with_many_subscriptions_is_ready_and_stays_connected() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2) as cluster:
            client = cluster.client("session-1")
            subscriptions = [client.subscribe(f"com.example.S{number}") for number in range(12_000)]
            await asyncio.gather(*(subscription.ready() for subscription in subscriptions))
            assert client.statistics().reconnections == 0

    run(scenario, seed=1)
