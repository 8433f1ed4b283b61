"""Callers with a token that an OpenID provider has signed (OpenID Connect Core 1.0, RFC 7519).

The signature is checked by PyJWT. Algorithms with a shared secret are never taken (RFC 8725, 2.1).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import jwt
from slotreeve.clock import Clock
from slotreeve.errors import Unauthenticated, Unreachable
from slotreeve_servers.node.settings import GatewaySettings, is_safe_place

from slotreeve_gateway.vouched_access import NO_KEYS

log = logging.getLogger("slotreeve.gateway")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_SECONDS = 30.0
"""The clocks of the provider and of this machine may differ by so much."""
REFRESH_SECONDS = 300.0
AGAIN_SECONDS = 3.0
"""A token with an unknown key lets the keys be fetched again after so long at the earliest."""
FETCH_SECONDS = 10.0
MOST_BYTES = 1 << 20
MOST_KNOWN = 10_000
"""So many tokens whose signature was good are remembered."""
LONGEST_TOKEN = 8_192
MOST_LETTERS = 100
NAME_HASH = " #"
"""Stands between the shown part of a subject and its hash."""
DISCOVERY = "/.well-known/openid-configuration"


class Claims:
    """What a token that is good says.

    Attributes:
        name: of the caller, for the log.
        ends_ms: when the token ends, in milliseconds of the wall clock.
        begins_ms: before then it is not good.
        subject: the claim ``sub``.
        groups: the caller's groups.
    """

    def __init__(self, claims: Mapping[str, object], groups_at: str) -> None:
        self.subject = str(claims["sub"])
        self.name = _name_of(self.subject)
        self.ends_ms = _ms(claims["exp"])
        self.begins_ms = _ms(claims.get("nbf", 0))
        self.groups = _groups(claims, groups_at)


class OpenIdTokens:
    """Reads tokens of one provider. Use it on one event loop; :meth:`run` fetches the keys in a thread.

    Args:
        rules: issuer, audience, where the keys are, and the claim with the groups.
        fetch: reads a URL or file; blocks. Raises OSError, ValueError.
    """

    def __init__(self, rules: GatewaySettings, clock: Clock, fetch: Callable[[str], bytes] | None = None) -> None:
        self._rules, self._clock, self._fetch = rules, clock, fetch or read_document
        self._keys: dict[str, jwt.PyJWK] | None = None
        self._known: dict[str, Claims] = {}
        self._wanted = False
        self.failures = 0

    @property
    def is_known(self) -> bool:
        """Whether the keys have been read."""
        return self._keys is not None

    async def run(self) -> None:
        """Fetch the keys now and again, for ever."""
        while True:
            await self.refresh()
            due, self._wanted = self._clock.now() + REFRESH_SECONDS, False
            await self._clock.sleep(AGAIN_SECONDS)
            while self.is_known and not self._wanted and self._clock.now() < due:
                await self._clock.sleep(AGAIN_SECONDS)

    async def refresh(self) -> None:
        """Fetch the keys. Where that fails, those before stay in use."""
        try:
            self.take(await asyncio.to_thread(self._fetched))
        except (OSError, ValueError, HTTPException) as error:
            self.failures += 1
            log.error("the keys of %s cannot be read: %s", self._rules.oidc_issuer, error)

    def _fetched(self) -> bytes:
        place = self._rules.oidc_keys
        if not place:
            document = _json_of(self._fetch(self._rules.oidc_issuer.rstrip("/") + DISCOVERY))
            if not isinstance(document, dict) or document.get("issuer") != self._rules.oidc_issuer:
                raise ValueError(f"its discovery document is that of another issuer than {self._rules.oidc_issuer!r}")
            place = str(document.get("jwks_uri"))
            if not is_safe_place(place):
                raise ValueError(f"its jwks_uri is {place!r}; expected https, since whoever is between could send keys")
        return self._fetch(place)

    def take(self, document: bytes) -> None:
        """Use these keys from now on. One that cannot be used is passed over. Raises ValueError: there is none."""
        found = _json_of(document)
        listed = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise ValueError('expected a JWKS: a JSON object with a list "keys"')
        keys = {str(key.key_id or ""): key for key in map(_usable, listed) if key is not None}
        if not keys:
            raise ValueError(f"there is no key for one of {', '.join(ALGORITHMS)} in it")
        self._keys = keys
        self._known.clear()

    def claims(self, token: str) -> Claims:
        """What a token says.

        Raises:
            Unauthenticated: it is not good; the message says why, and does not quote it.
            Unreachable: the keys have not been read yet.
        """
        known = self._known.get(token)
        if known is None:
            known = self._checked(token)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[token] = known
        now, leeway = self._clock.wall_ms(), LEEWAY_SECONDS * 1000
        if now >= known.ends_ms + leeway:
            raise Unauthenticated(f"the token of {known.name} has ended")
        if now < known.begins_ms - leeway:
            raise Unauthenticated(f"the token of {known.name} is not good yet")
        return known

    def _checked(self, token: str) -> Claims:
        if self._keys is None:
            raise Unreachable(NO_KEYS)
        if len(token) > LONGEST_TOKEN:
            raise Unauthenticated(f"the token is longer than {LONGEST_TOKEN} characters")
        try:
            key = self._key(str(jwt.get_unverified_header(token).get("kid", "")))
            found = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm_name],
                audience=self._rules.oidc_audience,
                issuer=self._rules.oidc_issuer,
                # Times are held against the clock of this gateway at each request.
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
            return Claims(found, self._rules.oidc_groups)
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            # Not what the error says: it may quote what the caller has sent.
            raise Unauthenticated(f"the token is not good ({type(error).__name__})") from None

    def _key(self, key_id: str) -> jwt.PyJWK:
        keys = self._keys or {}
        key = keys.get(key_id)
        if key is None and not key_id and len(keys) == 1:
            (key,) = keys.values()
        if key is None:
            self._wanted = True
            raise Unauthenticated("the token is signed with a key that the provider does not publish")
        return key


def _json_of(document: bytes) -> object:
    """Raises ValueError: it is no JSON."""
    try:
        return json.loads(document)
    except RecursionError:
        raise ValueError("its JSON is too deep") from None


class _NoOtherPlace(HTTPRedirectHandler):
    """The keys are where the configuration or the discovery document says, and nowhere else."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """None: an error of HTTP instead of another place."""


def _usable(key: object) -> jwt.PyJWK | None:
    """The key, if it is one that signatures may be checked with."""
    if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    try:
        made = jwt.PyJWK(key)
    except (jwt.PyJWTError, LookupError, TypeError, ValueError, AttributeError):
        return None  # PyJWT raises what it meets where a field is missing or of another type
    return made if made.algorithm_name in ALGORITHMS and made.public_key_use in (None, "sig") else None


def read_document(place: str) -> bytes:
    """The bytes at a URL (http, https), or of a file. Blocks. Raises OSError, ValueError."""
    if not urlsplit(place).scheme:
        return Path(place).read_bytes()
    request = Request(place, headers={"Accept": "application/json"})  # noqa: S310 - is_safe_place
    try:
        with build_opener(_NoOtherPlace).open(request, timeout=FETCH_SECONDS) as answer:
            body: bytes = answer.read(MOST_BYTES + 1)
    except URLError as error:
        raise OSError(f"{place}: {error.reason}") from None
    if len(body) > MOST_BYTES:
        raise ValueError(f"{place}: more than {MOST_BYTES} bytes")
    return body


def _name_of(subject: str) -> str:
    """The subject as it can be shown, with a hash where that had to be changed: no two subjects have one name."""
    shown = "".join(c if c.isprintable() else "?" for c in subject[:MOST_LETTERS])
    if shown == subject and NAME_HASH not in subject:
        return shown
    return f"{shown}{NAME_HASH}{hashlib.sha256(subject.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _ms(seconds: object) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not -(2**53) < seconds < 2**53:
        raise ValueError("exp and nbf must be numbers of seconds")
    return int(seconds * 1000)


def _groups(claims: Mapping[str, object], place: str) -> tuple[str, ...]:
    """The groups at a claim, or at one within others: ``realm_access.roles``."""
    found: object = claims.get(place)
    if found is None:
        found = claims
        for name in place.split("."):
            found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, str):
        return (found,)
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()
