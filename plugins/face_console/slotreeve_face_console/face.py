"""Pages under ``/ui``: who asks, what for, and the answer to every error."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from urllib.parse import unquote

from slotreeve.errors import SlotreeveError, Unauthenticated
from slotreeve.ports import Context
from slotreeve_gateway import Gateway
from slotreeve_gateway.http import status_of
from slotreeve_gateway.known_hosts import KnownHosts
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from slotreeve_face_console import ConsoleOptions
from slotreeve_face_console.acting import ActPages
from slotreeve_face_console.answers import StaticFiles, html, moved
from slotreeve_face_console.login import Login
from slotreeve_face_console.pages import ConsolePages
from slotreeve_face_console.rendering import Rendering
from slotreeve_face_console.routing import PageHandler
from slotreeve_face_console.sessions import PATH

log = logging.getLogger("slotreeve.face.console")

STATIC, SERVICE = f"{PATH}/static/", f"{PATH}/services/"
ADVICE = {
    400: "Check the address of the page.",
    403: "Log in with a token that has the right, or ask who issues tokens for it.",
    404: "Check the address of the page, or begin with one of the links above.",
    409: "Somebody else has written meanwhile. Go back, load the page again, and look at the present value.",
    503: "This page tries again by itself. Whether the servers run, slotreeve status tells, too.",
}
"""What would be right, by status."""
NOT_KNOWN = "Whether it was done is not known: look at what it changes before you try again."
"""The same of an act, with status 503."""


class ConsoleFace:
    """Implements :class:`slotreeve.ports.Face`."""

    def __init__(self, options: ConsoleOptions, context: Context) -> None:
        self._gateway = gateway = Gateway.of(context)
        self._rendering = Rendering(gateway.cluster, not options.read_only)
        self._login = Login(gateway, options, self._rendering)
        self._pages = ConsolePages(gateway, options, self._rendering, self._login, secrets.token_hex(4))
        self._acts = {} if options.read_only else ActPages(gateway, self._rendering, self._login).handlers()
        self._static = StaticFiles()
        self._hosts = KnownHosts(options.hosts, "face.console.hosts")
        self._answered = self._refused = 0

    async def start(self) -> None:
        """See Face."""
        self._gateway.pages.add([PATH], self)

    async def stop(self) -> None:
        """See Face."""
        await self._pages.stop()

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        return {
            "console_answers": self._answered,
            "console_refusals": self._refused,
            "console_sessions": self._login.sessions.count,
            **self._pages.counters(),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
            if answer.status_code < 400:
                self._answered += 1
            else:
                self._refused += 1
            await answer(scope, receive, send)
        except ClientDisconnect:
            return  # nobody is there to be answered

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._found(request)
        except ClientDisconnect:
            raise
        except Unauthenticated as error:
            return self._login.asked(request, str(error))
        except SlotreeveError as error:
            return self._error(request, status_of(error), f"{str(error).rstrip('.')}.", error.code)
        except Exception:
            log.exception("%s %s failed", request.method, request.scope["path"])
            return self._error(request, 500, "The gateway has failed; its log says why.")

    async def _found(self, request: Request) -> Response:
        path = request.scope["path"]
        if path == PATH:
            return moved(f"{PATH}/", 308)
        handlers = self._handlers(request)
        if not handlers:
            return self._error(request, 404, f"There is no page {path[:200]!r}.")
        handler = handlers.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            allowed = ", ".join([*handlers, *(["HEAD"] if "GET" in handlers else [])])
            return self._error(request, 405, f"This page takes {allowed}, not {request.method[:20]}.", allowed=allowed)
        if handler != self._file and path not in self._login.handlers():
            self._hosts.check(request.headers.get("host"), self._login.caller(request))
        return await handler(request)

    def _handlers(self, request: Request) -> Mapping[str, PageHandler]:
        """What answers, by method; none: there is no such page."""
        path = request.scope["path"]
        if path.startswith(STATIC):
            return {"GET": self._file}
        raw = request.scope["raw_path"].decode("ascii", "replace")
        if raw.startswith(SERVICE) and "/" not in raw.removeprefix(SERVICE) and raw != SERVICE:
            service = unquote(raw.removeprefix(SERVICE))
            return {"GET": lambda request: self._pages.service(request, service)}
        return {**self._pages.handlers(), **self._login.handlers(), **self._acts}.get(path, {})

    async def _file(self, request: Request) -> Response:
        answer = self._static.answer(request, request.scope["path"].removeprefix(STATIC))
        return answer if answer is not None else self._error(request, 404, "There is no such file.")

    def _error(self, request: Request, status: int, what: str, code: str = "", allowed: str = "") -> Response:
        is_act = request.method not in ("GET", "HEAD")
        page = {
            "title": {404: "Not found", 403: "Not allowed", 503: "Not known now"}.get(status, "This did not work"),
            "what": what,
            "code": code,
            "advice": NOT_KNOWN if is_act and status == 503 else ADVICE.get(status, ""),
            "retries": status == 503 and not is_act,
            "who": self._login.who(request),
        }
        return html(self._rendering.page("error.html", page), status, {"Allow": allowed} if allowed else None)
