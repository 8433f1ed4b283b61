"""The OpenAPI description of the face ``admin`` against a running gateway."""

from __future__ import annotations

import asyncio

from tests.faces.described import ask_everything
from tests.faces.stage import OnStage, Stage

RESIGNATION = "/v1/admin/election/resignation"
"""It is not asked for: the only meta server would be without a lead while it is elected again."""


def test_no_answer_is_a_failure_or_is_not_described(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        description = (await stage.http.get("/v1/admin/openapi.json")).json()
        del description["paths"][RESIGNATION]
        headers = {"Content-Type": "application/json"}
        found = await asyncio.to_thread(ask_everything, stage.url, description, headers)
        assert len(found) == sum(map(len, description["paths"].values())) == 34
        never = {"GET /v1/admin/configuration/{key}", "PUT /v1/admin/drains/{node}"}
        never |= {f"{method} /v1/admin/settings/{{setting}}" for method in ("PUT", "DELETE")}
        assert {operation for operation, statuses in found.items() if min(statuses) < 300} >= found.keys() - never

    on_stage(story, faces="admin", seconds=600)
