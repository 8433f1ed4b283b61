"""The commands of docs/face-rest.md, run against a gateway."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import httpx

from tests.faces.stage import OnStage, Stage

PAGE = Path(__file__).resolve().parents[3] / "docs" / "face-rest.md"
ADDRESS = "http://127.0.0.1:7740"


async def curl(client: httpx.AsyncClient, line: str) -> httpx.Response:
    """What a line with curl does, with the options that the page uses."""
    words = iter(shlex.split(line)[1:])
    method, url, body = "", "", None
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "--json":
            body = json.loads(next(words))
        else:
            url = word.removeprefix(ADDRESS)
            assert url != word, line
    return await client.request(method or ("GET" if body is None else "POST"), url, json=body)


def test_the_commands_of_the_page_do_what_it_says(on_stage: OnStage) -> None:
    text = PAGE.read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    asked = [line for line in lines if line.startswith("curl")]
    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]

    async def story(stage: Stage) -> None:
        async def all_slots_answer() -> bool:
            many = next(line for line in asked if "bulk/register" in line)
            return bool((await curl(stage.http, many)).json()["done"] == 2)

        await stage.until(all_slots_answer, "leaders answer for both services")
        answers = [await curl(stage.http, line) for line in asked]
        assert [answer.status_code for answer in answers] == [200, 204, 200, 204, 200, 200]
        assert answers[-1].json() == shown[0]
        instance = shown[1]["instances"][0] | {"zone": ""}
        place = "/v1/services/com.example.Shop/instances"
        fields = {name: value for name, value in instance.items() if name not in ("register_id", "said")}
        assert (await stage.http.put(f"{place}/shop-1", json=fields | instance["said"])).status_code == 200
        await stage.http.put(f"{place}/shop-1/override", json={"drain": True})
        await stage.sdk.publish("com.example.Shop", "10.0.0.9:80").acknowledged()

        async def is_shown() -> bool:
            found = (await stage.http.get(place)).json()
            shops = [{**one, "register_id": ""} for one in found["instances"] if one["id"] == "shop-1"]
            return bool(
                found["service"] == shown[1]["service"]
                and shops == [{**instance, "register_id": ""}]
                and [opaque["data"] for opaque in found["opaque"]] == [shown[1]["opaque"][0]["data"]]
            )

        await stage.until(is_shown, "the answer is as the page shows it")
        refused = await stage.http.put(f"{place}/shop-1", json=fields | {"prot": 80})
        assert refused.json() == shown[2]

    on_stage(story)
