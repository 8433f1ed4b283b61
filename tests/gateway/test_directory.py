"""The names of all services."""

from __future__ import annotations

import asyncio
import gc

import pytest
from slotreeve.errors import SlotreeveError
from slotreeve_gateway.directory import DIGESTS, LEAD_MILLISECONDS, PATIENCE_SECONDS
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
        ahead = gateway.directory.index + 5_000 * DIGESTS
        assert not await gateway.directory.changed(ahead, seconds=1)
        assert gateway.directory.index == ahead
        await gateway.registry.register("a", ONE)
        assert await gateway.directory.changed(ahead, seconds=3)
        assert gateway.directory.index > ahead

        invented = gateway.directory.index + 10 * LEAD_MILLISECONDS * DIGESTS
        assert await gateway.directory.changed(invented, seconds=30), "it is answered at once"
        assert gateway.directory.index < invented

    with_cluster(body)


def test_who_comes_with_an_index_of_another_list_from_a_gateway_whose_clock_is_ahead_is_answered_at_once() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        ahead, behind = SimulatedGateway(cluster, "gateway-1"), SimulatedGateway(cluster, "gateway-2")
        await ahead.registry.register("a", ONE)
        await ahead.directory.services()
        lead = ahead.directory.index + 20_000 * DIGESTS
        assert not await ahead.directory.changed(lead, seconds=0.1), "as if its clock were ahead"
        await behind.registry.register("b", ONE)
        await behind.directory.services()
        began = behind.clock.now()
        assert await behind.directory.changed(lead, seconds=50)
        assert behind.clock.now() - began < 5
        assert (behind.directory.index > lead, sorted(behind.directory.listed)) == (True, [whole("a"), whole("b")])
        assert not await behind.directory.changed(behind.directory.index, seconds=5), "it does not go on so"

    with_cluster(body)


def test_while_the_registry_does_not_answer_the_names_stay_and_whoever_waits_gets_the_next_change() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        await gateway.registry.register("a", ONE)
        await gateway.directory.services()
        index = gateway.directory.index
        waiting = [asyncio.create_task(gateway.directory.changed(index, seconds=600)) for _ in range(3)]
        await asyncio.sleep(2)
        for session in [name for name in cluster.servers if name.startswith("session")]:
            cluster.kill(session)
        for _ in range(50):
            began = gateway.clock.now()
            assert list(await gateway.directory.services()) == [whole("a")]
            assert gateway.clock.now() - began <= PATIENCE_SECONDS
            await asyncio.sleep(0.3)
        with pytest.raises(SlotreeveError):
            await gateway.directory.next()

        await cluster.start("session-1")
        await cluster.start("session-2")
        await cluster.ready()
        assert not any(task.done() for task in waiting)
        await gateway.registry.register("b", ONE)
        assert await asyncio.gather(*waiting) == [True] * 3
        assert list(await gateway.directory.services()) == [whole("a"), whole("b")]

    with_cluster(body)


def test_before_anything_could_be_read_the_reason_is_told() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        for session in [name for name in cluster.servers if name.startswith("session")]:
            cluster.kill(session)
        with pytest.raises(SlotreeveError, match="ListServices"):
            await gateway.directory.services()

    with_cluster(body)


def test_the_next_names_are_read_after_the_call_also_where_a_reading_is_under_way() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        for number in range(20):
            reading = asyncio.create_task(gateway.directory.services())
            await asyncio.sleep(0.0001 * number)
            await gateway.registry.register(f"a{number}", ONE)
            assert whole(f"a{number}") in await gateway.directory.next()
            await reading
            await asyncio.sleep(1)

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
