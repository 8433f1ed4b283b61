"""Logins: a browser cannot send a token with each request, so it shows the random id of a session instead."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import Counter
from typing import NamedTuple

from slotreeve.clock import Clock
from starlette.requests import cookie_parser

COOKIE, FORM_COOKIE = "slotreeve_console", "slotreeve_console_form"
PATH = "/ui"
_is_random = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch


class _Session(NamedTuple):
    token: str
    author: str
    ends_at: float


class LoginSessions:
    """Who has logged in, in the memory of this gateway. The token is asked of the gateway's access at each request, so
    one that is revoked or has ended opens nothing.

    Args:
        clock: tells when a session ends.
        hours: after which a session ends.
        most: sessions at a time; a further one ends the oldest of whoever has the most.
    """

    def __init__(self, clock: Clock, hours: float, most: int) -> None:
        self._clock, self._seconds, self._most = clock, 3600 * hours, most
        self._sessions: dict[bytes, _Session] = {}
        self._held: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Number of sessions."""
        return len(self._sessions)

    def begin(self, token: str, author: str, is_secure: bool) -> str:
        """A new session for a token, whose holder is ``author``. Returns the header ``Set-Cookie``; the token is not in
        it. ``is_secure``: the connection has TLS."""
        self._sweep()
        while len(self._sessions) >= self._most:
            ((most, _),) = self._held.most_common(1)
            self._end(next(key for key, session in self._sessions.items() if session.author == most))
        session_id = secrets.token_urlsafe(32)
        self._sessions[_key(session_id)] = _Session(token, author, self._clock.now() + self._seconds)
        self._held[author] += 1
        return _cookie(COOKIE, session_id, int(self._seconds), is_secure)

    def token(self, cookies: str) -> str | None:
        """The token of the session that the header ``Cookie`` names; None: it names none that goes on."""
        session_id = _value_in(cookies, COOKIE)
        found = self._sessions.get(_key(session_id)) if session_id else None
        return found.token if found is not None and found.ends_at > self._clock.now() else None

    def names_one(self, cookies: str) -> bool:
        """Whether the header ``Cookie`` names a session, be it one that has ended."""
        return bool(_value_in(cookies, COOKIE))

    def end(self, cookies: str, is_secure: bool) -> str:
        """End the session that the header ``Cookie`` names. Returns the header ``Set-Cookie`` that takes it away; empty
        where it names none, as with a form of another site."""
        session_id = _value_in(cookies, COOKIE)
        if not session_id:
            return ""
        self._end(_key(session_id))
        return _cookie(COOKIE, "", 0, is_secure)

    def form(self, cookies: str, is_secure: bool) -> tuple[str, str]:
        """What the form for logging in must show, and the header ``Set-Cookie`` that goes with it; empty where the
        browser has the cookie already. Forms of other sites cannot show what the cookie holds, and such a cookie does
        not come with them."""
        known = _value_in(cookies, FORM_COOKIE)
        if _is_random(known):
            return known, ""
        made = secrets.token_urlsafe(32)
        return made, _cookie(FORM_COOKIE, made, int(self._seconds), is_secure)

    def is_own_form(self, cookies: str, shown: str) -> bool:
        """Whether a form that shows this is one of ours."""
        known = _value_in(cookies, FORM_COOKIE)
        return bool(_is_random(known)) and hmac.compare_digest(known.encode(), shown.encode())

    def act_form(self, cookies: str, is_secure: bool) -> tuple[str, str]:
        """What a form of an act must show, and the header ``Set-Cookie`` as of :meth:`form`. It is good for the session
        only that the browser has now."""
        known, cookie = self.form(cookies, is_secure)
        return _bound(known, _value_in(cookies, COOKIE)), cookie

    def is_own_act(self, cookies: str, shown: str) -> bool:
        """Whether the form of an act that shows this is one of ours, and of this session."""
        known = _value_in(cookies, FORM_COOKIE)
        expected = _bound(known, _value_in(cookies, COOKIE)).encode()
        return bool(_is_random(known)) and hmac.compare_digest(expected, shown.encode())

    def _sweep(self) -> None:
        now = self._clock.now()
        for key in [key for key, session in self._sessions.items() if session.ends_at <= now]:
            self._end(key)

    def _end(self, key: bytes) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._held[session.author] -= 1
            if not self._held[session.author]:
                del self._held[session.author]


def _key(session_id: str) -> bytes:
    """Ids are found by their hash, so how long a look-up takes says nothing about an id."""
    return hashlib.sha256(session_id.encode(errors="replace")).digest()


def _bound(known: str, session_id: str) -> str:
    """What only who knows both can tell; no form shows the cookies themselves."""
    return hmac.new(known.encode(), session_id.encode(errors="replace"), hashlib.sha256).hexdigest()


def _value_in(cookies: str, name: str) -> str:
    # Not the parser of the standard library: it reads nothing beside a cookie of somebody else that it does not like.
    return cookie_parser(cookies).get(name, "")


def _cookie(name: str, value: str, seconds: int, is_secure: bool) -> str:
    secure = "; Secure" if is_secure else ""
    return f"{name}={value}; Path={PATH}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
