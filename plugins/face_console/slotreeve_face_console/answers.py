"""Answers of the console: their headers, pages as HTML, files that are served as they are."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer."""
PACKAGE = "slotreeve_face_console"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A page that no cache keeps."""
    return Response(text, status, {**HEADERS, "Cache-Control": "no-store", **(headers or {})}, "text/html")


def fresh(body: bytes) -> Response:
    """JSON that no cache keeps."""
    return Response(body, 200, {**HEADERS, "Cache-Control": "no-store"}, "application/json")


def moved(place: str, status: int = 303, headers: Mapping[str, str] | None = None) -> Response:
    """Go to ``place``, a path of the console."""
    return Response(b"", status, {**HEADERS, "Cache-Control": "no-store", "Location": place, **(headers or {})})


def tagged(request: Request, body: bytes, tag: str, media_type: str, cache: str) -> Response:
    """A body with its entity tag; 304 where the caller has it already."""
    headers = {**HEADERS, "ETag": tag, "Cache-Control": cache}
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(b"", 304, headers)
    return Response(body, 200, headers, media_type)


def tag_of(body: bytes) -> str:
    """The entity tag of a body."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


class StaticFiles:
    """The files below ``static``, read once. Callers keep them, and ask each time whether they changed."""

    def __init__(self) -> None:
        found = ((each.name, each.read_bytes()) for each in (files(PACKAGE) / "static").iterdir() if each.is_file())
        self._files = {name: (body, tag_of(body)) for name, body in found}

    def answer(self, request: Request, name: str) -> Response | None:
        """The file of this name; None: there is none."""
        if name not in self._files:
            return None
        body, tag = self._files[name]
        suffix = name[name.rfind(".") :]
        media_type = TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        return tagged(request, body, tag, media_type, "no-cache")
