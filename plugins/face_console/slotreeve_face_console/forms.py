"""What browsers send: queries, forms, cookies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from slotreeve.errors import RequestError
from slotreeve_gateway.http import BadBody, body_of
from starlette.requests import Request

MOST_FIELDS = 40
"""Fields of a query or a form."""
FORM = "application/x-www-form-urlencoded"


def query_of(request: Request) -> Mapping[str, str]:
    """The query of a request, of each name the first value. Raises RequestError."""
    return {name: values[0] for name, values in queries_of(request).items()}


def queries_of(request: Request) -> Mapping[str, Sequence[str]]:
    """The query of a request. Raises RequestError."""
    try:
        return parse_qs(request.scope["query_string"].decode("ascii"), max_num_fields=MOST_FIELDS)
    except ValueError:
        raise RequestError("the query of the address cannot be read; expected name=value pairs") from None


async def form_of(request: Request, most_bytes: int) -> Mapping[str, Sequence[str]]:
    """The fields of a form, empty ones too. Raises BadBody."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await body_of(request, most_bytes)
    if media != FORM:
        raise BadBody(f"the header Content-Type is {media[:80]!r}; expected {FORM}")
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise BadBody("the body is no form: expected name=value pairs with & between them") from None


def cookies_of(request: Request) -> str:
    """The header ``Cookie``."""
    return "; ".join(request.headers.getlist("cookie"))


def is_secure(request: Request) -> bool:
    """Whether the connection has TLS."""
    return bool(request.scope.get("scheme", "http") == "https")


def setting(cookie: str) -> dict[str, str]:
    """The header that sets a cookie, where there is one."""
    return {"Set-Cookie": cookie} if cookie else {}
