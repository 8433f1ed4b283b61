"""The OpenAPI description against a running gateway."""

from __future__ import annotations

import asyncio

from slotreeve_gateway import Right

from tests.faces.described import ask_everything
from tests.faces.stage import OnStage, Stage

SHORT = {"face.rest.longest_wait_seconds": 0.02, "face.rest.watch_seconds": 0.02, "gateway.most_services": 100_000}


def test_no_answer_is_a_failure_or_is_not_described(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        description = (await stage.http.get("/v1/openapi.json")).json()
        found = await asyncio.to_thread(ask_everything, stage.url, description)
        assert len(found) == sum(map(len, description["paths"].values())) == 15
        good = {operation for operation, statuses in found.items() if min(statuses) < 300}
        never = {operation for operation in found if operation.endswith(("/renewal", "instances/{id}", "/override"))}
        assert good >= found.keys() - never, "bad data alone says little"

    on_stage(story, settings=SHORT, seconds=600)


def test_the_description_names_the_right_that_each_operation_of_a_service_needs(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        paths = (await stage.http.get("/v1/openapi.json")).json()["paths"]
        for path, methods in paths.items():
            for method, operation in methods.items():
                if "{service}" in path:
                    right = Right.OPERATE if "override" in path else Right.READ if method == "get" else Right.REGISTER
                    assert f"the right {right} " in operation["description"], path
                assert operation["operationId"]
                assert {"400", "503"} <= operation["responses"].keys()

    on_stage(story)
