"""The HTTP pages of all faces under one listener."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.errors import NotThere, PluginError
from starlette.types import ASGIApp, Receive, Scope, Send

from slotreeve_gateway.http import problem
from slotreeve_gateway.known_hosts import is_of_another_page
from slotreeve_gateway.origin import ORIGIN, Origin

_ANOTHER_PAGE = problem(
    403, "a web page of another origin has made the request: its header Origin is not that of its Host"
)
_NOT_FOUND = problem(
    404, "no face of this gateway has such a page; its setting face.use names the faces", NotThere.code
)


class FacePages:
    """An ASGI application that hands a request to the face that its path belongs to.

    Faces are told apart by the first one or two segments of the path: ``/eureka``, ``/v1/catalog``. What a web page of
    another origin asks for in the browser of somebody who can reach this gateway is refused, whatever face it is for:
    a browser tells the origin, and other callers have none.
    """

    def __init__(self) -> None:
        self._faces: dict[str, ASGIApp] = {}

    def add(self, prefixes: Iterable[str], application: ASGIApp) -> None:
        """Hand requests under these prefixes to ``application``, which sees whole paths.

        Raises:
            PluginError: another face has taken one of them, or it has not one or two segments.
        """
        for prefix in prefixes:
            if not prefix.startswith("/") or prefix.endswith("/") or not 1 <= prefix.count("/") <= 2:
                raise PluginError(f"a face asks for the path {prefix!r}; expected /one or /one/two")
            if prefix in self._faces:
                raise PluginError(f"two faces ask for the path {prefix!r}; take one of them out of face.use")
            self._faces[prefix] = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        application = self._face(scope["path"]) if scope["type"] == "http" else None
        if application is not None and is_of_another_page(scope):
            await _ANOTHER_PAGE(scope, receive, send)
        elif application is not None:
            ORIGIN.set(Origin.of(scope))
            await application(scope, receive, send)
        else:
            await _NOT_FOUND(scope, receive, send)

    def _face(self, path: str) -> ASGIApp | None:
        first, second, *_ = (*path[1:].split("/", 2), "", "")
        return self._faces.get(f"/{first}/{second}") or self._faces.get(f"/{first}")
