"""Generated requests for every operation of an OpenAPI description, and checks of the answers."""

from __future__ import annotations

from collections.abc import Mapping
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

from tests.lanes.examples import EXAMPLES

RestOperation = schemathesis.APIOperation[Any, Any, Any, Any]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]
Statuses = dict[str, set[int]]


def ask(operation: RestOperation, mode: GenerationMode, url: str, session: requests.Session) -> set[int]:
    """Ask for an operation with generated data, and check each answer. Returns the statuses of the answers."""
    statuses: set[int] = set()

    @hypothesis.settings(
        # For each operation, and for good and for bad data.
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


def ask_everything(url: str, description: dict[str, Any], headers: Mapping[str, str] | None = None) -> Statuses:
    """Ask for every operation with good and bad data, with these headers. Returns the statuses of the answers by
    operation."""
    found: Statuses = {}
    with requests.Session() as session:
        session.headers.update(headers or {})
        for result in schemathesis.openapi.from_dict(description).get_all_operations():
            assert isinstance(result, Ok)
            operation = result.ok()
            name = f"{operation.method.upper()} {operation.path}"
            said = description["paths"][operation.path][operation.method.lower()]
            nothing_to_spoil = not said["parameters"] and "requestBody" not in said
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)[: 1 if nothing_to_spoil else 2]:
                found.setdefault(name, set()).update(ask(operation, mode, url, session))
    return found
