"""Callers by what others vouch for: an OpenID provider, or the issuer of a certificate; else by their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slotreeve.clock import Clock
from slotreeve.errors import Forbidden, Unauthenticated
from slotreeve.model.rights import Right, Rights, matches

from slotreeve_gateway.access import UNKNOWN, Caller
from slotreeve_gateway.origin import ORIGIN
from slotreeve_gateway.token_access import Deny, TokenAccess

if TYPE_CHECKING:
    from slotreeve_gateway.openid import OpenIdTokens

GROUP, SUBJECT = "group:", "subject:"
"""A grant begins with one of them, or is a pattern of URIs in certificates."""
MOST_CALLERS = 1_000
NO_KEYS = "the keys of the OpenID provider are not known yet"


class _Vouched:
    """A caller for whom somebody else vouches."""

    def __init__(self, name: str, rights: Rights, denied: Deny) -> None:
        self.name = self.author = name
        self._rights, self._denied = rights, denied

    def may(self, right: Right, service: str) -> bool:
        return self._rights.hold(right, service)

    def require(self, right: Right, service: str) -> None:
        if not self._rights.hold(right, service):
            self._denied(self.name, f"no right to {right} {service}")
            raise Forbidden(f"{self.name} has no right to {right} {service} (gateway.grants)")


class VouchedAccess:
    """Implements :class:`slotreeve_gateway.access.GatewayAccess`.

    Args:
        tokens: knows the tokens of the cluster.
        grants: rights by who has them.
        openid: reads tokens of a provider; None: they count for nothing.
        denied: as of :class:`TokenAccess`.
        clock: tells when a certificate has ended.
    """

    def __init__(
        self,
        tokens: TokenAccess,
        grants: Mapping[str, tuple[str, ...]],
        openid: OpenIdTokens | None,
        denied: Deny,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._tokens, self._grants, self._openid, self._denied = tokens, grants, openid, denied
        self._uris = {pattern: rights for pattern, rights in grants.items() if not pattern.startswith((GROUP, SUBJECT))}
        self._by_uris: dict[tuple[str, ...], _Vouched | None] = {}

    def caller(self, token: str | None) -> Caller:
        """See GatewayAccess. A token counts before a certificate."""
        if token is None:
            shown = ORIGIN.get().certificate
            found = self._by_certificate(shown.ids) if self._clock.wall_ms() < shown.ends_ms else None
            return found if found is not None else self._tokens.caller(None)
        if self._openid is None or not _looks_signed(token):
            return self._tokens.caller(token)
        try:
            claims = self._openid.claims(token)
        except Unauthenticated as error:
            self._tokens.refused += 1
            self._denied(UNKNOWN, str(error))
            raise
        holders = (SUBJECT + claims.subject, *(GROUP + group for group in claims.groups))
        rights = [right for holder in holders for right in self._grants.get(holder, ())]
        return _Vouched(f"subject {claims.name}", Rights(rights), self._denied)

    def _by_certificate(self, uris: tuple[str, ...]) -> _Vouched | None:
        """Who has this certificate; None where no grant names it."""
        if not uris or not self._uris:
            return None
        if uris not in self._by_uris:
            if len(self._by_uris) >= MOST_CALLERS:
                self._by_uris.clear()
            found = [(uri, granted) for uri in uris for pattern, granted in self._uris.items() if matches(pattern, uri)]
            named, rights = [uri for uri, _ in found], [right for _, granted in found for right in granted]
            self._by_uris[uris] = _Vouched(f"certificate {named[0]}", Rights(rights), self._denied) if named else None
        return self._by_uris[uris]


def _looks_signed(token: str) -> bool:
    """Whether this may be a token of an OpenID provider: three parts of Base64, the first of which is JSON."""
    return token.startswith("eyJ") and token.count(".") == 2
