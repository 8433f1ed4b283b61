"""All services with all instances, through the face ``admin``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from slotreeve.errors import RequestTimeout, Unreachable
from slotreeve_cli.main import command_line
from slotreeve_client import Client, Provider
from slotreeve_face_admin.dumping import MOST_DUMPS
from typer.testing import CliRunner, Result

from tests.faces.admin.admin_scene import SERVICE, AdminScene, access_with, on_admin
from tests.faces.stage import OnStage, Stage

GROUP = "#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


async def command(stage: Stage, *arguments: str) -> Result:
    return await asyncio.to_thread(
        CliRunner().invoke, command_line(arguments[0]), [*arguments, "--gateway", stage.gateway.address]
    )


def test_a_dump_has_a_line_for_each_service_and_a_last_line_with_the_numbers() -> None:
    async def story(scene: AdminScene) -> None:
        await scene.client.publish("other", b"\xff").acknowledged()
        answer = await scene.gateway.ask("GET", "/v1/admin/dump")
        assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
        *lines, end = map(json.loads, answer.body.splitlines())
        assert end == {"services": 2, "providers": 2, "problem": "", "code": ""}
        assert {line["service"]: line["providers"][0]["base64"] for line in lines} == {
            f"{SERVICE}{GROUP}": ["MTAuMC4wLjE6ODA="],
            f"other{GROUP}": ["/w=="],
        }
        one = await scene.gateway.ask("GET", "/v1/admin/dump?prefix=oth")
        assert len(one.body.splitlines()) == 2
        none = await scene.gateway.ask("GET", "/v1/admin/dump?prefix=nothing")
        assert json.loads(none.body)["services"] == 0
        assert (await scene.gateway.ask("HEAD", "/v1/admin/dump")).body == b""
        assert (await scene.gateway.ask("GET", "/v1/admin/dump?x=1")).status == 400
        assert (await scene.gateway.ask("GET", f"/v1/admin/dump?prefix={'x' * 5_000}")).status == 400

    on_admin(story)


def test_a_dump_needs_the_right_to_operate_everything() -> None:
    access, token = access_with("read:*", "operate:com.example.*")

    async def story(scene: AdminScene) -> None:
        assert (await scene.gateway.ask("GET", "/v1/admin/dump", headers=token)).status == 403

    on_admin(story, access)


def test_a_dump_that_cannot_go_on_says_so_in_its_last_line() -> None:
    async def story(scene: AdminScene) -> None:
        for name in ("data-1", "data-2", "data-3"):
            scene.cluster.kill(name)
        answer = await scene.gateway.ask("GET", "/v1/admin/dump")
        (end,) = map(json.loads, answer.body.splitlines())
        assert (end["services"], end["code"]) == (0, RequestTimeout.code)
        assert end["problem"]

    on_admin(story)


def test_the_command_prints_lines_or_one_list(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        assert (await command(stage, "dump")).exit_code == 3
        assert json.loads((await command(stage, "dump", "-o", "json")).stdout) == []
        for number in range(120):
            stage.sdk.publish(f"s{number}", "x")
        await stage.sdk.flush()
        lines = (await command(stage, "dump")).stdout.splitlines()
        assert len({json.loads(line)["service"] for line in lines}) == 120
        listed = json.loads((await command(stage, "dump", "s1", "-o", "json")).stdout)
        assert len(listed) == 31
        assert all(one["providers"] for one in listed)

    on_stage(story, faces="admin")


def test_a_dump_that_is_cut_off_is_no_dump(on_stage: OnStage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut(self: Client, prefix: str = "") -> AsyncIterator[tuple[str, tuple[Provider, ...]]]:
        yield "s", (Provider("r", "", (b"x",)),)
        raise RequestTimeout("too late")

    async def story(stage: Stage) -> None:
        monkeypatch.setattr(Client, "dump", cut)
        done = await command(stage, "dump")
        assert json.loads(done.stdout)["service"] == "s"
        assert isinstance(done.exception, RequestTimeout)

    on_stage(story, faces="admin")


def test_only_a_few_dumps_run_at_a_time(on_stage: OnStage, monkeypatch: pytest.MonkeyPatch) -> None:
    release = asyncio.Event()

    async def waiting(self: Client, prefix: str = "") -> AsyncIterator[tuple[str, tuple[Provider, ...]]]:
        await release.wait()
        yield "s", (Provider("r", "", (b"x",)),)

    async def story(stage: Stage) -> None:
        monkeypatch.setattr(Client, "dump", waiting)
        running = [asyncio.create_task(stage.http.get("/v1/admin/dump")) for _ in range(MOST_DUMPS)]

        async def is_full() -> bool:
            answer = await stage.http.head("/v1/admin/dump")
            return answer.status_code == 503

        await stage.until(is_full, "as many run as may")
        refused = await stage.http.get("/v1/admin/dump")
        assert (refused.status_code, refused.json()["code"]) == (503, "SR205")
        running.pop().cancel()  # its caller has gone

        async def has_room() -> bool:
            return (await stage.http.head("/v1/admin/dump")).status_code == 200

        await stage.until(has_room, "the one whose caller has gone counts no more")
        release.set()
        assert [answer.status_code for answer in await asyncio.gather(*running)] == [200] * (MOST_DUMPS - 1)

    on_stage(story, faces="admin")


def test_nobody_is_asked_where_no_gateway_is() -> None:
    done = CliRunner().invoke(command_line("dump"), ["dump", "--gateway", "127.0.0.1:1"])
    assert isinstance(done.exception, Unreachable)
