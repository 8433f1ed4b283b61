"""Who looks at the console, and how one logs in and out."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass

from slotreeve.errors import SlotreeveError, Unauthenticated
from slotreeve_gateway import Caller, Gateway, Right
from slotreeve_gateway.http import token_of
from slotreeve_gateway.openid import LONGEST_TOKEN
from starlette.requests import Request
from starlette.responses import Response

from slotreeve_face_console import ConsoleOptions
from slotreeve_face_console.answers import html, moved
from slotreeve_face_console.forms import cookies_of, form_of, is_secure, query_of, setting
from slotreeve_face_console.rendering import Rendering
from slotreeve_face_console.routing import PageHandler
from slotreeve_face_console.sessions import PATH, LoginSessions

MOST_FORM_BYTES = 16 * 1024


@dataclass(frozen=True)
class Visitor:
    """What pages say of who looks. ``name``: of the token; empty where there is none. ``has_login``: whether the
    gateway asks for tokens, so that logging in makes sense. ``is_known``: may see something; ``is_operator``: may see
    everything; ``may_act``: and act."""

    name: str = ""
    has_login: bool = False
    is_known: bool = False
    is_operator: bool = False
    may_act: bool = False


class Login:
    """Finds the caller of a request, and has the pages for logging in and out.

    Attributes:
        sessions: who has logged in.
    """

    def __init__(self, gateway: Gateway, options: ConsoleOptions, rendering: Rendering) -> None:
        self._access, self._rendering = gateway.access, rendering
        self._needed: bool | None = None
        self._acts = not options.read_only
        self.sessions = LoginSessions(gateway.clock, options.session_hours, options.most_sessions)

    def handlers(self) -> Mapping[str, Mapping[str, PageHandler]]:
        """What answers, by path and method."""
        return {
            f"{PATH}/login": {"GET": self._form, "POST": self._log_in},
            f"{PATH}/logout": {"POST": self._log_out},
        }

    def token(self, request: Request) -> str | None:
        """The token that a request shows: in the header ``Authorization``, else by its session. Raises
        Unauthenticated: the header cannot be read."""
        return token_of(request) or self.sessions.token(cookies_of(request))

    def caller(self, request: Request) -> Caller:
        """Who asks. Raises Unauthenticated, Unreachable: as the gateway's access."""
        return self._access.caller(self.token(request))

    def operator(self, request: Request) -> Caller:
        """Who asks, with the right to operate everything.

        Raises:
            Unauthenticated, Unreachable, Forbidden: the caller has it not, or is not known.
        """
        caller = self.caller(request)
        caller.require(Right.OPERATE, "*")
        return caller

    def who(self, request: Request) -> Visitor:
        """What pages say of the caller."""
        try:
            token = self.token(request)
            caller = self._access.caller(token)
        except SlotreeveError:
            return Visitor(has_login=True)
        is_operator = caller.may(Right.OPERATE, "*")
        return Visitor(
            caller.name if token is not None else "", self._is_needed(), True, is_operator, is_operator and self._acts
        )

    def _is_needed(self) -> bool:
        """Whether somebody without a token and certificate may not see everything. It is asked once: access counts whom
        it refuses."""
        if self._needed is None:
            try:
                self._needed = not Context().run(self._access.caller, None).may(Right.OPERATE, "*")
            except Unauthenticated:
                self._needed = True
            except SlotreeveError:
                return True  # the gateway does not know the tokens yet
        return self._needed

    # --- the pages -------------------------------------------------------------------------------------------------

    def asked(self, request: Request, why: str) -> Response:
        """The page that asks for a token in place of one that needs one. ``why``: what is wrong with the token."""
        path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
        after = f"{path}?{query}" if query else path
        try:
            is_wrong = self.token(request) is not None
        except Unauthenticated:
            is_wrong = True
        if is_wrong:
            says = _sentence(why)
        else:
            says = "The login has ended." if self.sessions.names_one(cookies_of(request)) else ""
        if request.method not in ("GET", "HEAD"):
            says, after = f"{says} Nothing was done.".lstrip(), f"{PATH}/"
        return self._page(request, says, 401, after)

    def _page(self, request: Request, why: str, status: int, after: str) -> Response:
        shown, cookie = self.sessions.form(cookies_of(request), is_secure(request))
        values = {
            "why": why,
            "next": _own_path(after),
            "form": shown,
            "who": Visitor(has_login=True),
            "retries": False,
            "longest": LONGEST_TOKEN,
        }
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        return html(self._rendering.page("login.html", values), status, headers | setting(cookie))

    async def _form(self, request: Request) -> Response:
        after = query_of(request).get("next", "")
        return self._page(request, "", 200, after) if self._is_needed() else moved(f"{PATH}/")

    async def _log_in(self, request: Request) -> Response:
        fields = await form_of(request, MOST_FORM_BYTES)
        given = {name: values[0] for name, values in fields.items()}
        token, after = given.get("token", "").strip(), _own_path(given.get("next", ""))
        if not self._is_needed():
            return moved(after)
        if not self.sessions.is_own_form(cookies_of(request), given.get("form", "")):
            return self._page(request, "The form was too old, or the browser keeps no cookies. Try again.", 403, after)
        if not token or len(token) > LONGEST_TOKEN:
            return self._page(request, "That is no token: it is empty, or too long.", 401, after)
        try:
            caller = self._access.caller(token)
        except Unauthenticated as error:
            return self._page(request, _sentence(str(error)), 401, after)
        if after == f"{PATH}/" and not caller.may(Right.OPERATE, "*"):
            after = f"{PATH}/services"
        self.sessions.end(cookies_of(request), is_secure(request))
        return moved(after, headers={"Set-Cookie": self.sessions.begin(token, caller.author, is_secure(request))})

    async def _log_out(self, request: Request) -> Response:
        cookie = self.sessions.end(cookies_of(request), is_secure(request))
        return moved(f"{PATH}/login" if self._is_needed() else f"{PATH}/", headers=setting(cookie))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _own_path(text: str) -> str:
    """The path if it is one of the console, else the first page."""
    is_own = text.startswith(f"{PATH}/") and not text.startswith((f"{PATH}/log", f"{PATH}/events"))
    return text if is_own and text.isascii() and text.isprintable() and "\\" not in text else f"{PATH}/"
