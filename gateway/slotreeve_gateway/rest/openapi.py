"""The OpenAPI description, made from the operations. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from slotreeve_gateway.rest.answers import Problem
from slotreeve_gateway.rest.call import Handler
from slotreeve_gateway.rest.routes import Answer, RestOperation

_REF = "#/components/schemas/{name}"
_PROBLEMS = {
    400: "The request is not good; the detail says what would be right.",
    401: "There is no token, or it is not valid.",
    403: "The token does not have the right.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    503: "The registry does not answer, or too much is under way. Try again; every request may be repeated.",
}
Json = dict[str, Any]
SERVICE_PLACE: Json = {"type": "string", "minLength": 1, "description": "A data id, or a whole data info id."}
"""The schema of the name ``service`` in a path."""


@dataclass(frozen=True)
class RestDescription:
    """What a description says beside the operations.

    Attributes:
        path: where it is handed out.
        says: what the operations are about.
        places: the JSON schema of each name that stands in the path of an operation.
    """

    path: str
    says: str
    places: Mapping[str, Json]


def described_itself(path: str, handler: Handler) -> RestOperation[Handler]:
    """The operation that hands the description out at ``path``."""
    good = Answer("This description.", _Description)
    return RestOperation("GET", path, "getDescription", "This description.", handler, {200: good})


class _Description(Struct):
    """An OpenAPI description."""

    openapi: str


def description(operations: Iterable[RestOperation[Handler]], about: RestDescription) -> Json:
    """The description of these operations, as JSON of OpenAPI 3.1."""
    chosen = list(operations)
    paths: dict[str, Json] = {}
    for operation in chosen:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, about)
    return {
        "openapi": "3.1.0",
        "info": {"title": "slotreeve", "version": "1", "description": about.says},
        "paths": paths,
        "components": {
            "schemas": _schemas(chosen),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic", "description": "The password is the token."},
            },
        },
        "security": [{"bearer": []}, {"basic": []}, {}],
    }


def _schemas(operations: Iterable[RestOperation[Handler]]) -> Json:
    types: dict[type[Struct], None] = {Problem: None}
    for operation in operations:
        bodies = [operation.body, *(answer.body for answer in operation.answers.values())]
        types.update(dict.fromkeys(body for body in bodies if body is not None))
    # Queries have no schema of their own, but what their fields refer to.
    of_queries = {operation.query: None for operation in operations}
    hidden = {query.__name__ for query in of_queries}
    return {name: schema for name, schema in _components(*types, *of_queries).items() if name not in hidden}


@functools.cache
def _components(*types: type[Struct]) -> Json:
    """The schemas of these types and of what they refer to, found once in a process; callers leave it as it is."""
    return msgspec.json.schema_components(types, ref_template=_REF)[1]


def _operation(operation: RestOperation[Handler], about: RestDescription) -> Json:
    described: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_places(operation.path, about), *_parameters(operation.query), *_headers(operation)],
        "responses": {str(status): answer for status, answer in sorted(_answers(operation).items())},
    }
    if operation.right is not None:
        services = "all services" if operation.for_all else "the service"
        described["description"] = f"The caller needs the right {operation.right!s} for {services}."
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _content(Answer("", operation.body))}
    return described


def _places(path: str, about: RestDescription) -> list[Json]:
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": about.places[name]} for name in names]


def _parameters(query: type[Struct]) -> list[Json]:
    return [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in _components(query)[query.__name__]["properties"].items()
    ]


def _headers(operation: RestOperation[Handler]) -> list[Json]:
    if not operation.last_event:
        return []
    schema = {"type": "string", "pattern": "^[0-9]{0,18}$", "description": "The id of the last event; empty: none."}
    return [{"name": "Last-Event-ID", "in": "header", "required": False, "schema": schema}]


def _answers(operation: RestOperation[Handler]) -> dict[int, Json]:
    answers: dict[int, Json] = {}
    problems = set(_PROBLEMS) if operation.body is not None else set(_PROBLEMS) - {413, 415}
    for status in problems:
        answers[status] = _problem(_PROBLEMS[status])
    for status, answer in operation.answers.items():
        answers[status] = _problem(answer.says) if status >= 400 else _good(answer)
    if 201 in answers:
        answers[201]["headers"] = {"Location": {"required": True, "schema": {"type": "string"}}}
    return answers


def _good(answer: Answer) -> Json:
    content = _content(answer)
    return {"description": answer.says} | ({"content": content} if content else {})


def _problem(says: str) -> Json:
    return {"description": says, "content": _content(Answer(says, Problem, "application/problem+json"))}


def _content(answer: Answer) -> Json:
    if answer.body is None:
        return {}
    return {answer.media: {"schema": {"$ref": _REF.format(name=answer.body.__name__)}}}
