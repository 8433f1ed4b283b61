"""``slotreeve_testing.registry``: a whole registry in the event loop of a test."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from slotreeve.errors import ConfigError, RequestTimeout
from slotreeve_client import Client, Filter, Instance, Subscription
from slotreeve_gateway.access import Caller
from slotreeve_gateway.views import Views
from slotreeve_testing import FailureInServer, RegistryUnderTest, registry
from slotreeve_testing.watching import RegistryWatch

from tests.simulation.planting import replaced

SHOP = "com.example.Shop"
LEASE = {"address": "10.0.0.7", "port": 8080, "ttl_seconds": 30}
Story = Callable[[RegistryUnderTest], Awaitable[None]]


def play(story: Story, *, debug: bool = False, **options: Any) -> None:
    async def scene() -> None:
        async with asyncio.timeout(60), registry(**options) as reg:
            await story(reg)

    asyncio.run(scene(), debug=debug)


async def subscribed(client: Client) -> Subscription:
    await client.register(SHOP, Instance("10.0.0.1", 8080)).acknowledged()
    watched = client.subscribe(SHOP)
    await watched.ready()
    return watched


def test_what_takes_milliseconds_happens_by_itself() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        told = asyncio.Event()
        async with reg.connect() as provider, reg.connect() as caller:
            watched = caller.subscribe(SHOP, lambda s: told.set() if s.instances else None)
            provider.register(SHOP, Instance("10.0.0.1", 8080, tags=("blue",)))
            await told.wait()
            assert len(watched.select(Filter(tags={"blue"})).instances) == 1

    play(story)


def test_a_lease_ends_when_its_time_has_been_skipped_and_not_before() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with httpx.AsyncClient(base_url=reg.gateway_url) as http:
            assert (await http.put(f"/v1/services/{SHOP}/instances/a", json=LEASE)).status_code == 200
            await reg.advance(20)
            assert len(await reg.instances(SHOP)) == 1
            assert (await http.put(f"/v1/services/{SHOP}/instances/a/renewal")).status_code == 204
            await reg.advance(29)
            assert len(await reg.instances(SHOP)) == 1
            await reg.advance(10)
            assert await reg.instances(SHOP) == ()

    play(story)


def test_a_client_outlives_the_death_of_one_server_of_each_role() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with reg.connect() as client:
            watched = await subscribed(client)
            killed = [await reg.kill_session(), await reg.kill_data(), await reg.kill_meta_leader()]
            assert {name.partition("-")[0] for name in killed} == {"session", "data", "meta"}
            await reg.until(lambda: client.statistics().reconnections, "the client has another session server")
            await reg.settled()
            assert len(watched.instances) == 1
            assert len(reg.servers) == 5
            await reg.restart()
            await reg.settled()
            assert len(reg.servers) == 8
            assert len(await reg.instances(SHOP)) == 1

    play(story)


def test_a_killed_session_server_is_the_one_that_the_client_used() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        for _ in range(3):
            async with reg.connect() as client:
                used = client.server
                killed = await reg.kill_session()
                await reg.until(lambda: client.server not in (None, used), "the client is at another one")  # noqa: B023
                await reg.restart(killed)
                await reg.settled()

    play(story)


def test_a_frozen_session_server_is_left_after_its_silence_and_not_before() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with reg.connect() as client:
            before = client.server
            (frozen,) = [name for name in reg.servers if reg.address(name) == before]
            reg.freeze(frozen)
            await reg.advance(2.0)
            assert client.server == before
            await reg.advance(3.0)
            assert client.server not in (None, before)
            reg.thaw(frozen)
            await reg.settled()

    play(story)


def test_a_client_that_is_cut_off_comes_back_when_the_network_heals() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with reg.connect("caller") as caller:
            watched = await subscribed(caller)
            for name in ("session-1", "session-2"):
                reg.cut("caller", name)
            await reg.advance(60)
            assert caller.server is None
            assert await reg.instances(SHOP) == ()
            assert len(watched.instances) == 1, "what it knew stays readable"
            reg.heal()
            await reg.until(lambda: caller.server, "it is connected again")
            await caller.flush()
            assert len(await reg.instances(SHOP)) == 1

    play(story)


def test_a_name_that_nobody_has_is_refused_with_those_that_there_are() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        with pytest.raises(ValueError, match="no server 'data-9' runs; these do: meta-1"):
            await reg.kill("data-9")
        with pytest.raises(ValueError, match="no server 'client-1' runs"):
            reg.freeze("client-1")
        with pytest.raises(ValueError, match="there is no process 'caller'; there are data-1"):
            reg.cut("caller", "data-1")
        with pytest.raises(ValueError, match="there is a process 'data-1' already"):
            reg.connect("data-1")
        with pytest.raises(RuntimeError, match="has no doors"):
            _ = reg.session_addresses
        with pytest.raises(RequestTimeout, match="not within 5 s of the registry: pigs fly"):
            await reg.until(lambda: False, "pigs fly", seconds=5)

    play(story)


@pytest.mark.parametrize(
    "path", ["/v1/services", "/v1/catalog/services", "/eureka/apps", "/prometheus/targets", "/ui/"]
)
def test_the_gateway_speaks_every_language(path: str) -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with httpx.AsyncClient(base_url=reg.gateway_url) as http:
            assert (await http.get(path)).status_code == 200

    play(story, meta=1, data=1, session=1)


def test_envoy_gets_the_endpoints_of_a_service() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with reg.connect() as client, httpx.AsyncClient(base_url=reg.gateway_url) as http:
            await subscribed(client)
            answer = await http.post("/v3/discovery:endpoints", json={"resource_names": [SHOP]})
            assert answer.status_code == 200
            assert "10.0.0.1" in answer.text

    play(story, meta=1, data=1, session=1)


# --- failures --------------------------------------------------------------------------------------------------------


class BrokenAccess:
    def caller(self, token: str | None) -> Caller:
        raise ZeroDivisionError("access is broken")


def test_an_error_in_a_server_is_raised_in_the_test() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with httpx.AsyncClient(base_url=reg.gateway_url) as http:
            assert (await http.get("/v1/services")).status_code == 500
        with pytest.raises(FailureInServer, match="ZeroDivisionError: access is broken"):
            await reg.advance(0)
        await reg.advance(0)

    play(story, meta=1, data=1, session=1, access=BrokenAccess())


def test_an_error_that_no_verb_has_raised_is_raised_at_the_end() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with httpx.AsyncClient(base_url=reg.gateway_url) as http:
            await http.get("/v1/services")

    with pytest.raises(FailureInServer) as caught:
        play(story, meta=1, data=1, session=1, access=BrokenAccess())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def broken_sweep(self: Views) -> None:
    raise ZeroDivisionError("no sweep")


@pytest.mark.parametrize("is_logged", [True, False])
def test_an_error_in_a_loop_of_a_server_is_raised_also_where_nothing_is_logged(is_logged: bool) -> None:
    async def story(reg: RegistryUnderTest) -> None:
        await reg.advance(30)

    if not is_logged:
        logging.disable()
    try:
        with replaced(Views, "sweep", broken_sweep), pytest.raises(FailureInServer) as caught:
            play(story, meta=1, data=1, session=1)
    finally:
        logging.disable(logging.NOTSET)
    assert ("no sweep" if is_logged else "loop_failures") in str(caught.value)


def test_an_error_of_a_task_that_nobody_waits_for_is_found() -> None:
    async def fail(how: str) -> None:
        raise ZeroDivisionError(how)

    async def scene() -> None:
        loop, watch = asyncio.get_running_loop(), RegistryWatch()
        alone = loop.create_task(fail("alone"), context=watch.context.copy())
        awaited = loop.create_task(fail("awaited"), context=watch.context.copy())
        of_the_test = loop.create_task(fail("of the test"))
        await asyncio.wait([alone])
        for task in (awaited, of_the_test):
            with pytest.raises(ZeroDivisionError):
                await task
        assert [str(error) for error in watch.take()] == ["alone"]
        assert watch.take() == []
        watch.close()

    asyncio.run(scene())


def test_an_error_of_the_test_is_raised_with_a_note_about_the_servers() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with httpx.AsyncClient(base_url=reg.gateway_url) as http:
            await http.get("/v1/services")
        raise KeyError("of the test")

    with pytest.raises(KeyError, match="of the test") as caught:
        play(story, meta=1, data=1, session=1, access=BrokenAccess())
    assert "access is broken" in caught.value.__notes__[0]


def test_an_error_in_a_callback_of_the_program_is_the_programs_own() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        def broken(_: Subscription) -> None:
            raise ZeroDivisionError("in a callback")

        async with reg.connect() as client:
            watched = client.subscribe(SHOP, broken)
            await watched.ready()
            await reg.until(lambda: client.statistics().callback_failures)

    play(story, meta=1, data=1, session=1)


# --- the end ---------------------------------------------------------------------------------------------------------


def left_behind() -> tuple[object, ...]:
    """Whatever a registry could leave in its process."""
    gc.collect()
    loop, handlers = asyncio.get_running_loop(), logging.getLogger("slotreeve").handlers
    threads = {thread.ident for thread in threading.enumerate()}
    return asyncio.all_tasks(), loop.get_task_factory(), [*handlers], threads, len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("raises", [False, True])
def test_nothing_is_left_after_the_end_also_when_the_test_raised(raises: bool) -> None:
    async def scene() -> None:
        before = left_behind()
        with suppress(KeyError):
            async with httpx.AsyncClient() as http, registry() as reg:
                reg.connect("forgotten")
                await http.get(f"{reg.gateway_url}/v1/services")  # its connection is kept alive
                await reg.kill_data("data-2")
                reg.freeze("data-1")
                reg.cut("session-1", "session-2")
                if raises:
                    raise KeyError("of the test")
        assert left_behind() == before
        async with httpx.AsyncClient() as http:
            with pytest.raises(httpx.ConnectError):
                await http.get(reg.gateway_url)

    asyncio.run(scene())


def test_a_registry_that_cannot_start_leaves_nothing() -> None:
    async def scene() -> None:
        before = asyncio.all_tasks()
        with pytest.raises(ConfigError, match=r"cluster\.nonsense"):
            async with registry(settings={"cluster.nonsense": 1}):
                pass
        assert asyncio.all_tasks() == before
        assert asyncio.get_running_loop().get_task_factory() is None

    asyncio.run(scene())


# --- time ------------------------------------------------------------------------------------------------------------


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its clock can jump, as if the process had stood still."""

    jumped = 0.0

    def time(self) -> float:
        return super().time() + self.jumped


def test_a_standstill_of_the_process_is_no_silence_in_the_registry() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        async with registry() as reg, reg.connect() as client:
            watched = await subscribed(client)
            for _ in range(10):
                before = reg.now
                loop.jumped += 60.0
                await reg.advance(0.1)
                assert reg.now - before < 10
            assert client.statistics().reconnections == 0
            assert len(watched.instances) == 1
            assert len(reg.servers) == 8

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(scene())


def test_the_same_seed_gives_the_same_ids_and_leaders() -> None:
    seen: list[tuple[object, ...]] = []

    async def story(reg: RegistryUnderTest) -> None:
        async with reg.connect() as client:
            await subscribed(client)
            (provider,) = await reg.instances(SHOP)
            seen.append((provider.register_id, reg.meta_leader, await reg.kill_session(), await reg.kill_data()))

    for seed in (1, 1, 2):
        play(story, seed=seed)
    assert seen[0] == seen[1] != seen[2]


def test_a_verb_that_is_cancelled_and_verbs_at_the_same_time_do_no_harm() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await reg.advance(1_000_000)
        before = reg.now
        await asyncio.gather(reg.advance(5), reg.advance(5), reg.kill_session(), reg.until(lambda: True))
        assert 5 <= reg.now - before < 60
        await reg.settled()
        assert len(reg.servers) == 7

    play(story)


def test_two_registries_in_one_event_loop_do_not_know_each_other() -> None:
    async def scene() -> None:
        async with registry() as first, first.connect() as one:
            async with registry(meta=1, data=1, session=1) as second, second.connect() as two:
                await subscribed(one)
                assert await two.get(SHOP) == ()
                before = second.now
                await first.advance(60)
                assert second.now - before < 30
            await first.advance(1)
            assert len(await first.instances(SHOP)) == 1

    asyncio.run(scene())


def test_it_runs_on_an_event_loop_in_debug_mode() -> None:
    async def story(reg: RegistryUnderTest) -> None:
        async with reg.connect() as client:
            await subscribed(client)
            await reg.kill_session()
            await reg.settled()

    play(story, debug=True)
