"""The OpenAPI description against a running gateway."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import hypothesis
import requests
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from slotreeve_gateway import Right

from tests.faces.stage import OnStage, Stage

RestOperation = schemathesis.APIOperation[Any, Any, Any, Any]
EXAMPLES = int(os.environ.get("SLOTREEVE_EXAMPLES", "20"))
"""Requests for each operation, and for good and for bad data."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]
SHORT = {"face.rest.longest_wait_seconds": 0.02, "face.rest.watch_seconds": 0.02, "gateway.most_services": 100_000}


def ask(operation: RestOperation, mode: GenerationMode, url: str, session: requests.Session) -> set[int]:
    """Ask for an operation with generated data, and check each answer. Returns the statuses of the answers."""
    statuses: set[int] = set()

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def once(case: schemathesis.Case[Any]) -> None:
        answer = case.call(base_url=url, session=session)
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    once()
    return statuses


def ask_everything(url: str, description: dict[str, Any]) -> dict[str, set[int]]:
    """Ask for every operation with good and bad data. Returns the statuses of the answers by operation."""
    found: dict[str, set[int]] = {}
    with requests.Session() as session:
        for result in schemathesis.openapi.from_dict(description).get_all_operations():
            assert isinstance(result, Ok)
            operation = result.ok()
            name = f"{operation.method.upper()} {operation.path}"
            nothing_to_spoil = operation.path == "/v1/openapi.json"
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)[: 1 if nothing_to_spoil else 2]:
                found.setdefault(name, set()).update(ask(operation, mode, url, session))
    return found


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
