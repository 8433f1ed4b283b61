"""Answers in JSON, and those to errors."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from slotreeve.errors import SlotreeveError
from starlette.responses import Response

from slotreeve_gateway.http import problem, status_of
from slotreeve_gateway.rest.bodies import WrongMedia
from slotreeve_gateway.rest.routes import NoSuchMethod

_JSON = {"Content-Type": "application/json", "Cache-Control": "no-store"}


class Problem(Struct, omit_defaults=True):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: Annotated[str, Meta(description="What happened, and what would be right.")] = ""
    code: Annotated[str, Meta(description="The kind of error, see docs/errors.md.")] = ""


def json_answer(body: bytes, status: int = 200, **headers: str) -> Response:
    """JSON that nobody keeps: the next caller asks again."""
    return Response(body, status, _JSON | headers)


def refused(error: SlotreeveError) -> Response:
    """The answer to an error: problem+json with its code."""
    if isinstance(error, NoSuchMethod):
        return problem(405, str(error), error.code, error.allowed)
    status = 415 if isinstance(error, WrongMedia) else status_of(error)
    return problem(status, str(error), error.code)
