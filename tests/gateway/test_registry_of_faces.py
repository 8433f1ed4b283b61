"""What faces have of the registry: indexes that gateways share, and requests that travel together."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import ModelError
from slotreeve_client import Instance

from tests.faces.gateway_on_trial import Trial, play


def test_gateways_give_one_index_to_one_state_however_they_came_to_see_it() -> None:
    async def scenario(trial: Trial) -> None:
        first = await trial.gateway()
        early = await first.registry.view("web")
        for port in range(3):
            await first.registry.register("web", Instance("10.0.0.1", 80 + port), 30)
        second, third = await trial.gateway(), await trial.gateway()
        late = await second.registry.view("web")
        both = await asyncio.gather(*(third.registry.view("web") for _ in range(2)))
        await asyncio.sleep(1)
        assert len(early.instances) == len(late.instances) == 3
        assert {view.index for view in (early, late, *both)} == {late.index}
        await first.registry.deregister("web", "10.0.0.1:80")
        await asyncio.sleep(1)
        assert {view.index for view in (early, late, *both)} == {early.index}

    play(scenario)


def test_who_waits_is_answered_once_there_is_something_newer_than_it_knows() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        view = await gateway.registry.view("web")
        ahead = asyncio.ensure_future(view.changed(view.index + 2**33, 20))
        equal = asyncio.ensure_future(view.changed(view.index, 20))
        await asyncio.sleep(1)
        await gateway.registry.register("web", Instance("10.0.0.1", 80), 30)
        assert await equal
        await asyncio.sleep(1)
        assert not ahead.done()
        assert view.is_waited_for
        assert not await ahead
        assert not view.is_waited_for

    play(scenario)


def test_a_view_is_closed_once_nobody_has_asked_for_long_and_not_under_who_waits() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        view = await gateway.registry.view("web")
        await gateway.registry.view("other")
        waiting = asyncio.ensure_future(view.changed(view.index, 300))
        await asyncio.sleep(100)
        gateway.views.sweep()
        assert gateway.views.count == 1
        await gateway.registry.register("web", Instance("10.0.0.1", 80), 30)
        while not waiting.done():
            gateway.views.sweep()  # also between the change and the waiter's turn
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
        assert await waiting
        gateway.views.sweep()
        assert gateway.views.count == 0

    play(scenario)


def test_a_request_that_is_not_good_fails_none_that_travels_with_it() -> None:
    async def scenario(trial: Trial) -> None:
        registry = (await trial.gateway()).registry
        good, long_id = Instance("10.0.0.1", 80), "x" * 513
        registered = await asyncio.gather(
            registry.register("web", good, 30),
            registry.register("web", good, 0.5),
            registry.register("web", good, 90_000),
            registry.register("we#@#b", good, 30),
            return_exceptions=True,
        )
        assert [type(answer) for answer in registered] == [type(None), ModelError, ModelError, ModelError]
        for call in (registry.renew, registry.deregister):
            answers = await asyncio.gather(
                call("web", good.id), call("web", long_id), call("web", ""), return_exceptions=True
            )
            assert [answer if answer is True else type(answer) for answer in answers] == [True, ModelError, ModelError]
        with pytest.raises(ModelError, match="time to live"):
            await registry.register("web", good, 0.5)

    play(scenario)
