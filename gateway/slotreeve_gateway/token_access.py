"""Callers by their tokens. Pure."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterable, Mapping

from slotreeve.clock import Clock
from slotreeve.errors import Forbidden, ModelError, Unauthenticated, Unreachable
from slotreeve.model.rights import Right, Rights
from slotreeve_protocol.tokens import Token, Tokens, hash_of, parts_of

from slotreeve_gateway.access import ANONYMOUS, UNKNOWN, Caller

log = logging.getLogger("slotreeve.gateway")

NOT_KNOWN = "the tokens are not known yet: no session server has sent them"
_UNKNOWN_HASH = bytes(32)
Deny = Callable[[str, str], None]


class _WithToken:
    """A caller that has shown a token. Made once for each token, not for each request."""

    def __init__(self, token: Token, denied: Deny) -> None:
        self.token, self.name, self._denied = token, token.name, denied
        self.author = f"token {token.name}"
        self.secret_hash = bytes.fromhex(token.secret_hash)
        self._rights = Rights(token.rights)

    def may(self, right: Right, service: str) -> bool:
        return self._rights.hold(right, service)

    def require(self, right: Right, service: str) -> None:
        if not self._rights.hold(right, service):
            self._denied(self.author, f"no right to {right} {service}")
            raise Forbidden(f"the token {self.name} has no right to {right} {service}")


class _WithoutToken:
    """A caller that has shown none, with what ``gateway.anonymous`` grants."""

    name = author = ANONYMOUS

    def __init__(self, rights: Iterable[str], denied: Deny) -> None:
        self._rights, self._denied = Rights(rights), denied

    def may(self, right: Right, service: str) -> bool:
        return self._rights.hold(right, service)

    def require(self, right: Right, service: str) -> None:
        if not self._rights.hold(right, service):
            self._denied(ANONYMOUS, f"no right to {right} {service} without a token")
            raise Unauthenticated(f"to {right} {service} needs a token; the request has none")


class TokenAccess:
    """Knows callers by the newest tokens that could be read. While the registry cannot be reached, the last ones that
    it has sent stay in force.

    Args:
        clock: tells when a token has ended.
        anonymous: the rights of callers without a token; empty: they are refused.
        denied: is called with the name of a caller that is denied something, and what.

    Attributes:
        refused: number of callers that were refused, because of their token or for lack of one.
    """

    def __init__(self, clock: Clock, anonymous: Iterable[str] = (), denied: Deny = lambda name, what: None) -> None:
        self._clock, self._denied = clock, denied
        granted = tuple(anonymous)
        self._anonymous = _WithoutToken(granted, denied) if granted else None
        self._callers: Mapping[str, _WithToken] | None = None
        self.refused = 0

    @property
    def is_known(self) -> bool:
        """Whether the registry has sent the tokens. Until then nobody is let in."""
        return self._callers is not None

    @property
    def count(self) -> int:
        """Number of tokens in force."""
        now = self._clock.wall_ms()
        return sum(not caller.token.has_ended(now) for caller in (self._callers or {}).values())

    def take(self, value: bytes | None) -> None:
        """The registry has sent its entry. One that cannot be read is logged, and changes nothing."""
        try:
            tokens = Tokens.decode(value)
        except ModelError as error:
            log.error("%s; %s", error, "the tokens before it stay in force" if self.is_known else NOT_KNOWN)
            return
        self._callers = {token_id: _WithToken(token, self._denied) for token_id, token in tokens.by_id.items()}

    def caller(self, token: str | None) -> Caller:
        """See :class:`slotreeve_gateway.access.GatewayAccess`."""
        if self._callers is None:
            raise Unreachable(NOT_KNOWN)
        if token is None:
            if self._anonymous is None:
                raise self._refusal(ANONYMOUS, "a token is needed; the request has none")
            return self._anonymous
        token_id, secret = parts_of(token)
        found = self._callers.get(token_id)
        kept = found.secret_hash if found is not None else _UNKNOWN_HASH
        if not hmac.compare_digest(hash_of(secret), kept) or found is None:
            raise self._refusal(UNKNOWN, "the token is unknown or revoked")
        if found.token.has_ended(self._clock.wall_ms()):
            raise self._refusal(found.author, f"the token {found.name} has ended")
        return found

    def _refusal(self, name: str, why: str) -> Unauthenticated:
        self.refused += 1
        self._denied(name, why)
        return Unauthenticated(why)
