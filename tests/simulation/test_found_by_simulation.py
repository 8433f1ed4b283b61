"""Defects that the simulator found, each in its smallest form."""

from __future__ import annotations

import asyncio
import random

from slotreeve_client.publication import Publication
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster


def test_an_acknowledgement_that_comes_late_does_not_undo_a_newer_one() -> None:
    publication = Publication("id", "service", "", (b"1",), lambda _publication: None)
    publication.republish("2")
    publication.settle(2, (b"2",))
    publication.settle(1, (b"1",))
    assert publication.is_acknowledged


def test_a_read_over_a_connection_that_has_just_ended_does_not_ask_for_ever() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            provider, client = cluster.client(), cluster.client(name="reader")
            provider.publish("s", "1")
            await provider.flush()
            await client.connected()
            cluster.network.cut("reader", "session-1")
            cluster.network.cut("reader", "session-2")
            await asyncio.sleep(0)
            cluster.freeze("reader")
            reading = asyncio.create_task(client.get("s"))
            await asyncio.sleep(0.5)
            cluster.thaw("reader")
            assert len(await reading) == 1

    run(scenario, seed=1)


def test_a_restarted_data_server_does_not_lead_under_a_leader_epoch_of_its_former_life() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            cluster.network.delay_seconds = lambda _source, _target: 0.02
            before = {(slot.slot.id, slot.slot.leader_epoch) for slot in cluster.data("data-1").core.slots.led()}
            again: set[tuple[int, int]] = set()
            cluster.kill("data-1")
            await cluster.start("data-1")

            def settled() -> bool:
                led = cluster.data("data-1").core.slots.led()
                again.update((slot.slot.id, slot.slot.leader_epoch) for slot in led)
                return cluster.is_settled()

            await cluster.until(settled, "the cluster has settled")
            assert before
            assert not before & again

    run(scenario, seed=1)


def test_the_instances_of_a_client_that_was_frozen_together_with_its_session_server_come_back() -> None:
    async def scenario(rng: random.Random) -> None:
        # Neither periodic comparisons nor the client itself bring back what the data servers have removed.
        settings = {"data.repair_seconds": 600.0, "session.scan_seconds": 600.0}
        async with SimulatedCluster(rng, settings=settings) as cluster:
            provider = cluster.client("session-1", name="provider")
            for number in range(20):
                provider.publish(f"s{number}", "1")
            await provider.flush()
            reader = cluster.client("session-2", name="reader")
            watched = [reader.subscribe(f"s{number}") for number in range(20)]
            await cluster.until(lambda: all(len(one.instances) == 1 for one in watched), "all are seen")
            cluster.freeze("provider")
            cluster.freeze("session-1")
            await cluster.until(lambda: not any(one.instances for one in watched), "all are removed")
            cluster.thaw("session-1")
            cluster.thaw("provider")
            await cluster.until(lambda: all(len(one.instances) == 1 for one in watched), "all are back", 5.0)

    run(scenario, seed=1)
