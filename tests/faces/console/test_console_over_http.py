"""The console over real HTTP: streams of events, and a gateway that stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from slotreeve_protocol.instance import Instance

from tests.faces.stage import OnStage, Stage

STOP_SECONDS = 5.0


async def first_event(lines: AsyncIterator[str], wanted: str) -> str:
    """The next event that has this text in it."""
    async for line in lines:
        if line.startswith("data: ") and wanted in line:
            return line.removeprefix("data: ")
    pytest.fail("the stream has ended")


def test_a_service_that_appears_comes_as_an_event(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        page = await stage.http.get("/ui/services")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        async with stage.http.stream("GET", "/ui/events?page=services") as stream:
            assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
            lines = stream.aiter_lines()
            await first_event(lines, "No service has an instance now.")
            await stage.sdk.register("com.example.S", Instance("10.0.0.1", 80)).acknowledged()
            event = json.loads(await first_event(lines, "com.example.S"))
            assert len(event["services"]["order"]) == 1

    on_stage(story, faces="console", settings={"face.console.seconds": 0.2})


def test_a_gateway_with_open_pages_stops_at_once(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        async with stage.another() as (gateway, http), http.stream("GET", "/ui/events?page=first") as stream:
            await first_event(stream.aiter_lines(), "The cluster is well")
            async with asyncio.timeout(STOP_SECONDS):
                await gateway.stop()

    on_stage(story, faces="console")


def test_readers_that_leave_are_not_counted(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        async with stage.http.stream("GET", "/ui/events?page=first") as stream:
            await first_event(stream.aiter_lines(), "The cluster is well")
            assert stage.gateway.counters()["console_readers"] == 1

        async def nobody() -> bool:
            return stage.gateway.counters()["console_readers"] == 0

        await stage.until(nobody, "nobody looks")

    on_stage(story, faces="console")


def test_the_console_stands_beside_all_other_faces(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        assert (await stage.http.get("/ui/")).status_code == 200
        assert (await stage.http.get("/v1/services")).status_code == 200
        assert (await stage.http.get("/")).status_code == 404

    on_stage(story, faces="rest,prometheus,consul,eureka,envoy,console")
