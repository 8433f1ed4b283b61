"""The OpenAPI description, made from the operations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from slotreeve_protocol.instance import MAX_ID_LENGTH

from slotreeve_face_rest import documents
from slotreeve_face_rest.call import Handler
from slotreeve_face_rest.routes import Answer, RestOperation

PATH = "/v1/openapi.json"
_REF = "#/components/schemas/{name}"
_PLACES = {
    "service": {"type": "string", "minLength": 1, "description": "A data id, or a whole data info id."},
    "id": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_ID_LENGTH,
        "description": "The id of the instance.",
    },
}
_PROBLEMS = {
    400: "The request is not good; the detail says what would be right.",
    401: "There is no token, or it is not valid.",
    403: "The token does not have the right.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    503: "The registry does not answer, or too much is under way. Try again; every request may be repeated.",
}
_DESCRIPTION = "Services and leases of a slotreeve registry. Any gateway of the registry may be asked at any time."
Json = dict[str, Any]


def described_itself(handler: Handler) -> RestOperation[Handler]:
    """The operation that hands the description out."""
    good = Answer("This description.", _Description)
    return RestOperation("GET", PATH, "getDescription", "This description.", handler, {200: good})


class _Description(Struct):
    """An OpenAPI description."""

    openapi: str


def description(operations: Iterable[RestOperation[Handler]]) -> Json:
    """The description of these operations, as JSON of OpenAPI 3.1."""
    chosen = list(operations)
    paths: dict[str, Json] = {}
    for operation in chosen:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "slotreeve", "version": "1", "description": _DESCRIPTION},
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
    types: dict[type[Struct], None] = {documents.Problem: None}
    for operation in operations:
        bodies = [operation.body, *(answer.body for answer in operation.answers.values())]
        types.update(dict.fromkeys(body for body in bodies if body is not None))
    # Queries have no schema of their own, but what their fields refer to.
    of_queries = {operation.query: None for operation in operations}
    _, found = msgspec.json.schema_components([*types, *of_queries], ref_template=_REF)
    for query in of_queries:
        del found[query.__name__]
    return found


def _operation(operation: RestOperation[Handler]) -> Json:
    described: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_places(operation.path), *_parameters(operation.query), *_headers(operation)],
        "responses": {str(status): answer for status, answer in sorted(_answers(operation).items())},
    }
    if operation.right is not None:
        described["description"] = f"The caller needs the right {operation.right!s} for the service."
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _content(Answer("", operation.body))}
    return described


def _places(path: str) -> list[Json]:
    names = re.findall(r"{(\w+)}", path)
    return [{"name": name, "in": "path", "required": True, "schema": _PLACES[name]} for name in names]


def _parameters(query: type[Struct]) -> list[Json]:
    _, found = msgspec.json.schema_components([query], ref_template=_REF)
    return [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in found[query.__name__]["properties"].items()
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
    return {"description": says, "content": _content(Answer(says, documents.Problem, "application/problem+json"))}


def _content(answer: Answer) -> Json:
    if answer.body is None:
        return {}
    return {answer.media: {"schema": {"$ref": _REF.format(name=answer.body.__name__)}}}
