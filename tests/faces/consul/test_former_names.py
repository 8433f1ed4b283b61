"""What waits to be looked for under its former name waits on where the registry has not answered."""

from __future__ import annotations

import asyncio

from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.faces.gateway_on_trial import Trial, play

CHECK = {"TTL": "300s", "Status": "passing"}


def leader_of(cluster: SimulatedCluster, service: str) -> str:
    for name in [node.name for node in cluster.views()[0].data]:
        for slot in cluster.data(name).core.slots.led():
            if any(known.startswith(f"{service}#") for known in slot.store.services):
                return name
    raise AssertionError(f"nobody leads the slot of {service}")


def test_a_former_name_ends_although_the_leader_of_its_slot_does_not_answer_for_a_while() -> None:
    async def scenario(trial: Trial) -> None:
        cluster = trial.cluster
        first, second = await trial.gateway(), await trial.gateway()
        services = [f"service-{number}" for number in range(8)]
        for service in services:
            await first.register(service, f"{service}-1", Check=CHECK)
        await asyncio.sleep(1.5)
        assert len((await second.get("/v1/catalog/services")).json) == len(services), "it knows the services by now"
        old, cut_off = services[0], leader_of(cluster, services[0])
        new = next(service for service in services if leader_of(cluster, service) != cut_off)
        cluster.network.partition([session.name for session in cluster.views()[0].sessions], [cut_off])
        await second.register(new, f"{old}-1", Check=CHECK)
        await asyncio.sleep(10)
        cluster.network.heal()
        for _ in range(300):
            if f"{old}-1" not in await second.statuses(old):
                break
            await asyncio.sleep(0.1)
        assert (await second.statuses(old), set(await second.statuses(new))) == ({}, {f"{old}-1", f"{new}-1"})

    play(scenario)
