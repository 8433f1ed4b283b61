"""What a program without our client sees: services read from a gateway over HTTP and JSON."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from urllib.parse import quote

from slotreeve.errors import ClientError
from slotreeve_client import Provider

ANSWER_SECONDS = 10.0


def read_over_rest(address: str, services: Iterable[str]) -> dict[str, tuple[Provider, ...]]:
    """The providers of each service, as the gateway at ``address`` shows them. Blocks.

    Raises:
        ClientError: it cannot be reached, or has no answer now.
    """
    host, _, port = address.rpartition(":")
    with closing(HTTPConnection(host, int(port), timeout=ANSWER_SECONDS)) as connection:
        try:
            return {service: _read(connection, service) for service in services}
        except (OSError, HTTPException, ValueError) as error:
            raise ClientError(f"the gateway at {address} does not answer: {error}") from None


def _read(connection: HTTPConnection, service: str) -> tuple[Provider, ...]:
    path = f"/v1/services/{quote(service, safe='')}/instances"
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != HTTPStatus.OK:
        raise ClientError(f"GET {path}: {answer.status} {text[:200]!r}")
    shown = json.loads(text)["opaque"]  # the demonstration publishes bytes of its own, no instances
    return tuple(Provider(one["register_id"], one["zone"], tuple(map(b64decode, one["data"]))) for one in shown)
