"""The commands of docs/face-admin.md, run against a gateway over HTTP."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import httpx

from tests.faces.stage import OnStage, Stage

PAGE = Path(__file__).resolve().parents[3] / "docs" / "face-admin.md"
ADDRESS = "http://127.0.0.1:7740"


async def curl(client: httpx.AsyncClient, line: str) -> httpx.Response:
    """What a line with curl does, with the options that the page uses."""
    words = iter(shlex.split(line)[1:])
    method, url, body = "GET", "", None
    headers = {}
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "--json":
            body = json.loads(next(words))
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        else:
            url = word.removeprefix(ADDRESS)
            assert url != word, line
    return await client.request(method, url, json=body, headers=headers)


def test_the_commands_of_the_page_do_what_it_says(on_stage: OnStage) -> None:
    text = PAGE.read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    (shown,) = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL))

    async def story(stage: Stage) -> None:
        status, tried, stopped, started = [await curl(stage.http, line) for line in lines if line.startswith("curl")]
        assert status.json()["well"], status.text
        assert tried.json() == {**shown, "done": False}
        assert stopped.json() == shown
        assert started.json()["done"], started.text
        assert started.json()["undo"]["body"] == {"except": ["10.0.0.7"]}

    on_stage(story, faces="rest,admin")


def test_the_page_lists_every_path_of_the_description(on_stage: OnStage) -> None:
    text = PAGE.read_text()

    async def story(stage: Stage) -> None:
        for path in (await stage.http.get("/v1/admin/openapi.json")).json()["paths"]:
            assert f"`{path}`" in text, path

    on_stage(story, faces="admin")


def test_a_page_of_another_origin_is_refused_over_http(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        place, json_ = "/v1/admin/orders/push-stop", {"Content-Type": "application/json"}
        for headers, status in (
            ({**json_, "Origin": "http://evil.example.net"}, 403),
            ({**json_, "Host": "evil.example.net", "Origin": "http://evil.example.net"}, 403),
            ({"Origin": stage.url}, 415),
            ({**json_, "Origin": stage.url}, 200),
        ):
            assert (await stage.http.delete(place, headers=headers)).status_code == status, headers

    on_stage(story, faces="admin")
