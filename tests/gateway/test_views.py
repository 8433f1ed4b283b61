"""Services as the callers of a gateway see them."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import Backpressure, ModelError, RegistrationError, RequestTimeout
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.overrides import Override
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_gateway import IDLE_SECONDS, SimulatedGateway

from tests.gateway.gateways import with_cluster

SERVICE = "com.example.Greeter"
ONE, TWO = Instance("10.0.0.1", 80), Instance("10.0.0.2", 80)


def test_a_service_that_nobody_provides_has_an_index_too_and_it_rises_with_the_first_provider() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        registry = SimulatedGateway(cluster, "gateway-1").registry
        view = await registry.view(SERVICE)
        assert view.index > 0
        assert view.instances == ()
        empty = view.index

        await registry.register(SERVICE, ONE, ttl_seconds=30)

        assert await view.changed(empty, seconds=1)
        assert view.index > empty
        assert [provider.instance for provider in view.providers] == [ONE]

    with_cluster(body)


def test_all_who_wait_are_woken_by_a_change_and_nobody_by_the_end_of_a_wait() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        registry = SimulatedGateway(cluster, "gateway-1").registry
        view = await registry.view(SERVICE)
        index = view.index
        waiting = [asyncio.create_task(view.changed(index, seconds)) for seconds in (1, 50, 50)]

        await asyncio.sleep(2)
        assert [task.done() for task in waiting] == [True, False, False]
        await registry.register(SERVICE, ONE)

        assert [await task for task in waiting] == [False, True, True]
        assert await view.changed(index, seconds=0)
        assert not await view.changed(view.index, seconds=0)

    with_cluster(body)


def test_an_answer_is_made_once_for_all_who_ask_until_the_service_changes() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        registry = SimulatedGateway(cluster, "gateway-1").registry
        view = await registry.view(SERVICE)
        made = []

        def encode() -> bytes:
            made.append(view.index)
            return repr(view.instances).encode()

        assert view.once("json", encode) is view.once("json", encode)
        await registry.register(SERVICE, ONE)
        await view.changed(made[0], seconds=1)
        view.once("json", encode)
        view.once("xml", encode)

        assert len(made) == 3

    with_cluster(body)


def test_what_an_operator_overrides_is_seen_and_raises_the_index() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        registry = SimulatedGateway(cluster, "gateway-1").registry
        await registry.register(SERVICE, ONE)
        view = await registry.view(SERVICE)
        before = view.index

        await registry.override(SERVICE, ONE.id, Override(weight=7))
        assert await view.changed(before, seconds=5)
        assert view.instances[0].weight == 7
        overridden = view.index

        await registry.override(SERVICE, ONE.id, None)
        assert await view.changed(overridden, seconds=5)
        assert view.instances == (ONE,)

    with_cluster(body)


def test_the_index_does_not_fall_when_a_leader_dies_or_when_every_process_starts_again() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        first = SimulatedGateway(cluster, "gateway-1")
        await first.registry.register(SERVICE, ONE, ttl_seconds=600)
        view = await first.registry.view(SERVICE)
        seen = [view.index]
        for name in ("data-1", "data-2"):
            cluster.kill(name)
            await asyncio.sleep(8)
            await cluster.start(name)
            await cluster.ready()
            seen.append((await first.registry.view(SERVICE)).index)
        assert view.instances == (ONE,)

        cluster.kill(first.name)
        for name in list(cluster.servers):
            cluster.kill(name)
        for name in cluster.names:
            await cluster.start(name)
        await cluster.ready(60)
        second = SimulatedGateway(cluster, "gateway-2")
        seen.append((await second.registry.view(SERVICE)).index)
        await second.registry.register(SERVICE, TWO)
        assert await (await second.registry.view(SERVICE)).changed(seen[-1], seconds=5)
        seen.append((await second.registry.view(SERVICE)).index)

        assert seen == sorted(seen)
        assert seen[-1] > seen[-2] > seen[0], "it goes on rising after everything was lost"

    with_cluster(body)


def test_the_index_begins_anew_in_each_gateway_where_the_cluster_has_lost_what_it_counted() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        lives_on = SimulatedGateway(cluster, "gateway-1")
        await lives_on.registry.register(SERVICE, ONE, ttl_seconds=600)
        view = await lives_on.registry.view(SERVICE)
        for _ in range(5):
            await lives_on.registry.deregister(SERVICE, ONE.id)
            await lives_on.registry.register(SERVICE, ONE, ttl_seconds=600)
        await asyncio.sleep(1)
        before = view.index
        waiting = asyncio.ensure_future(view.changed(before, seconds=300))
        began = asyncio.get_running_loop().time()

        for name in list(cluster.servers):
            cluster.kill(name)
            cluster.wipe(name)
        for name in cluster.names:
            await cluster.start(name)
        await cluster.ready(60)

        assert await waiting, "whoever waits is told at once, although the new index is below its own"
        assert asyncio.get_running_loop().time() < began + 120
        new = SimulatedGateway(cluster, "gateway-2")
        await new.registry.register(SERVICE, TWO)
        await asyncio.sleep(1)
        other = await new.registry.view(SERVICE)
        assert view.instances == other.instances == (TWO,)
        index = view.index
        assert 0 < index == other.index < before
        await new.registry.register(SERVICE, ONE)
        assert await view.changed(index, seconds=5)
        assert await other.changed(index, seconds=5)
        assert view.index == other.index

    with_cluster(body)


def test_what_the_client_knows_already_is_seen_at_once_and_so_is_what_stands_beside_it() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        beside = f"{SERVICE}#@#gateway-test#@#DEFAULT_GROUP"
        for name in (SERVICE, beside):
            await gateway.registry.register(name, ONE)
            await gateway.client.subscribe(name).ready()
        await gateway.registry.register(beside, TWO)
        await asyncio.sleep(1)

        view = await gateway.registry.view(SERVICE, beside)

        assert view.instances == (ONE,)
        assert [provider.instance for provider in view.late] == [TWO], "a provider of the service itself hides its own"
        assert [subscription.callback_failures for subscription in view._subscriptions] == [0, 0]
        index = view.index
        await gateway.registry.register(beside, ONE, ttl_seconds=60)
        assert not await view.changed(index, seconds=2), "what is hidden wakes nobody"
        await gateway.registry.deregister(beside, TWO.id)
        assert await view.changed(index, seconds=2)
        assert view.late == ()
        assert dict(await gateway.directory.next()) == {f"{SERVICE}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP": 1}
        assert gateway.directory.own == {beside}

    with_cluster(body)


def test_two_gateways_agree_on_the_index_of_a_settled_service() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateways = [SimulatedGateway(cluster, f"gateway-{number}") for number in (1, 2)]
        early = await gateways[0].registry.view(SERVICE)
        await gateways[0].registry.register(SERVICE, ONE)
        await gateways[1].registry.register(SERVICE, TWO)
        await gateways[1].registry.override(SERVICE, ONE.id, Override(drain=True))
        await asyncio.sleep(1)
        late = await gateways[1].registry.view(SERVICE)

        assert early.instances == late.instances
        assert early.index == late.index

    with_cluster(body)


def test_a_view_that_nobody_asks_for_is_closed_and_one_that_is_waited_for_is_not() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1", most_services=2)
        left = await gateway.registry.view("com.example.Left")
        waited = await gateway.registry.view("com.example.Waited")
        waiting = asyncio.create_task(waited.changed(waited.index, seconds=2 * IDLE_SECONDS))

        await asyncio.sleep(IDLE_SECONDS + 1)
        gateway.views.sweep()

        assert gateway.views.count == 1
        assert await gateway.registry.view("com.example.Waited") is waited
        assert await gateway.registry.view("com.example.Left") is not left
        await gateway.registry.register("com.example.Waited", ONE)
        assert await waiting

    with_cluster(body)


def test_where_there_are_too_many_the_one_asked_for_the_longest_ago_makes_room_unless_somebody_waits_in_it() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1", most_services=2)
        view, asked = gateway.registry.view, []
        for name in ("a", "b", "a", "c"):
            asked.append(await view(f"com.example.{name}"))
            await asyncio.sleep(0.1)
        a, _, again, c = asked
        assert a is again
        assert gateway.views.count == 2
        assert await view("com.example.a") is a, "b has made room"
        waits = [asyncio.create_task(one.changed(one.index, seconds=5.0)) for one in (a, c)]
        await asyncio.sleep(0.1)
        with pytest.raises(Backpressure, match="2 services are watched already"):
            await view("com.example.d")
        await asyncio.gather(*waits)
        await view("com.example.d")
        assert gateway.views.count == 2

    with_cluster(body)


def test_who_holds_a_view_that_made_room_is_told_why_nothing_changes_in_it() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        registry = SimulatedGateway(cluster, "gateway-1", most_services=2).registry
        held = await registry.view("a")
        for name in ("b", "c"):
            await registry.view(name)
        with pytest.raises(Backpressure, match=r"2 services are watched already \(gateway\.most_services\)"):
            await held.changed(held.index, seconds=5)
        assert (await registry.view("a")).index >= held.index

    with_cluster(body)


def test_one_service_under_its_short_and_its_whole_name_is_watched_once() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        short = await gateway.registry.view(SERVICE)
        whole = await gateway.registry.view(f"{SERVICE}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP")

        assert short is whole
        assert gateway.views.count == 1
        with pytest.raises(ModelError):
            await gateway.registry.view(" ")

    with_cluster(body)


def test_a_service_that_is_not_pushed_any_more_is_an_error_and_is_served_again_once_it_is_pushed() -> None:
    names = [f"com.example.{letter}" for letter in "ABC"]

    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        gateway.client.publish(names[-1], "one")
        views = [await gateway.registry.view(name) for name in names]
        for name in ("session-1", "session-2"):
            cluster.kill(name)
        waiting = asyncio.create_task(views[-1].changed(views[-1].index, seconds=500))
        await cluster.start("session-1", session__most_subscriptions=1)
        await asyncio.sleep(10)
        gateway.views.sweep()

        with pytest.raises(RegistrationError, match="1 subscriptions"):
            await asyncio.wait_for(waiting, 1)
        assert gateway.registry.current_view(views[-1].data_info_id) is None
        for _ in range(2):
            with pytest.raises(RegistrationError, match="1 subscriptions"):
                await gateway.registry.view(names[-1])

        cluster.kill("session-1")
        await cluster.start("session-1")
        await gateway.client.connected()
        gateway.client.publish(names[-1], "two")
        await gateway.client.flush()
        await asyncio.sleep(1)
        assert [provider.data for provider in (await gateway.registry.view(names[-1])).providers] == [
            (b"one",),
            (b"two",),
        ]

    with_cluster(body)


def test_without_a_session_server_a_caller_is_told_so_and_a_later_one_is_served() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        for name in ("session-1", "session-2"):
            cluster.kill(name)
        with pytest.raises(RequestTimeout, match=SERVICE):
            await gateway.registry.view(SERVICE)

        await cluster.start("session-1")
        await cluster.ready()
        await asyncio.sleep(5)

        assert (await gateway.registry.view(SERVICE)).instances == ()

    with_cluster(body)
