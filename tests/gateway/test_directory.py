"""The names of all services."""

from __future__ import annotations

import asyncio
import gc

import pytest
from slotreeve.errors import SlotreeveError
from slotreeve_gateway.directory import LEAD_MILLISECONDS
from slotreeve_protocol.instance import Instance
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_gateway import SimulatedGateway

from tests.gateway.gateways import with_cluster

ONE = Instance("10.0.0.1", 80)


def whole(name: str) -> str:
    return f"{name}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


def test_services_appear_with_their_first_provider_and_disappear_with_the_last() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        assert await gateway.directory.services() == {}
        index = gateway.directory.index
        assert index > 0

        await gateway.registry.register("b", ONE)
        await gateway.registry.register("a", ONE)
        assert await gateway.directory.changed(index, seconds=5)
        assert dict(await gateway.directory.services()) == {whole("a"): 1, whole("b"): 1}
        index = gateway.directory.index

        await gateway.registry.deregister("a", ONE.id)
        assert await gateway.directory.changed(index, seconds=5)
        assert dict(await gateway.directory.services()) == {whole("b"): 1}

    with_cluster(body)


def test_many_who_ask_at_once_cost_one_reading_and_nobody_reads_while_nobody_asks() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        read = 0
        ask = gateway.client.list

        async def counted(prefix: str = "") -> dict[str, int]:
            nonlocal read
            read += 1
            return await ask(prefix)

        gateway.directory._lister = type("Counted", (), {"list": staticmethod(counted)})()
        await asyncio.gather(*(gateway.directory.services() for _ in range(100)))
        assert read == 1
        await asyncio.sleep(30)
        assert read == 1
        index = gateway.directory.index
        assert not any(await asyncio.gather(*(gateway.directory.changed(index, seconds=3) for _ in range(100))))
        assert 3 <= read <= 6

    with_cluster(body)


def test_a_caller_that_goes_away_does_not_end_the_reading_of_the_others() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        await gateway.registry.register("a", ONE)
        gone, stays = (asyncio.create_task(gateway.directory.services()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()

        assert list(await stays) == [whole("a")]

    with_cluster(body)


def test_an_index_of_another_gateway_that_is_ahead_is_taken_over_and_an_invented_one_is_not() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        await gateway.directory.services()
        ahead = gateway.clock.wall_ms() + 5_000
        assert not await gateway.directory.changed(ahead, seconds=1)
        assert gateway.directory.index == ahead
        await gateway.registry.register("a", ONE)
        assert await gateway.directory.changed(ahead, seconds=3)
        assert gateway.directory.index > ahead

        invented = gateway.clock.wall_ms() + 10 * LEAD_MILLISECONDS
        assert await gateway.directory.changed(invented, seconds=30), "it is answered at once"
        assert gateway.directory.index < invented

    with_cluster(body)


def test_whoever_waits_is_told_when_the_registry_does_not_answer_and_the_next_one_is_answered_again() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        await gateway.registry.register("a", ONE)
        await gateway.directory.services()
        index = gateway.directory.index
        waiting = [asyncio.create_task(gateway.directory.changed(index, seconds=60)) for _ in range(3)]
        await asyncio.sleep(2)
        for session in [name for name in cluster.servers if name.startswith("session")]:
            cluster.kill(session)
        for waits in waiting:
            with pytest.raises(SlotreeveError):
                await waits

        await cluster.start("session-1")
        await cluster.start("session-2")
        await cluster.ready()
        again = asyncio.create_task(gateway.directory.changed(index, seconds=60))
        await asyncio.sleep(2)
        await gateway.registry.register("b", ONE)
        assert await again

    with_cluster(body)


def test_a_reading_that_fails_after_all_who_asked_have_gone_is_nobodys_error() -> None:
    said: list[object] = []

    async def body(cluster: SimulatedCluster) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: said.append(context["message"]))
        gateway = SimulatedGateway(cluster, "gateway-1")
        for session in [name for name in cluster.servers if name.startswith("session")]:
            cluster.kill(session)
        asked = asyncio.create_task(gateway.directory.services())
        await asyncio.sleep(1)
        asked.cancel()
        await asyncio.sleep(30)
        gc.collect()
        assert said == []

    with_cluster(body)
