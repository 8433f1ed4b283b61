"""The JSON of a request."""

from __future__ import annotations

from typing import Any

import msgspec
from slotreeve.errors import RequestError
from starlette.requests import Request

from slotreeve_gateway.http import body_of, decoded


class WrongMedia(RequestError):
    """The body is no JSON by its header."""


def require_json(request: Request, is_needed: bool = False) -> None:
    """Check the header Content-Type. ``is_needed``: it must be there.

    Raises:
        WrongMedia: it says that the body is no JSON.
    """
    media = request.headers.get("content-type", "" if is_needed else "application/json")
    if media.partition(";")[0].strip().lower() != "application/json":
        raise WrongMedia(f"the header Content-Type is {media[:80]!r}; expected application/json")


class Bodies:
    """Reads bodies; it keeps a decoder for each type."""

    def __init__(self) -> None:
        self._decoders: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {}

    async def read(self, request: Request, kind: type[msgspec.Struct]) -> Any:
        """The body as a ``kind``.

        Raises:
            WrongMedia: its header says that it is no JSON.
            BadBody: it is no JSON, has an unknown field or a wrong value, or is too large; the message says where.
        """
        require_json(request)
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = msgspec.json.Decoder(kind)
        return decoded(await body_of(request), decoder)
