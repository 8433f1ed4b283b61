"""Who may do what through a gateway."""

from __future__ import annotations

from typing import Protocol

from slotreeve.model.rights import Right as Right

ANONYMOUS = "anonymous"
"""The name of callers without a token, or where tokens are ignored."""


UNKNOWN = "a caller"
"""The name of callers whose token is unknown, or of nobody."""
STRANGERS = frozenset({ANONYMOUS, UNKNOWN})
"""The authors of what callers do who have shown nothing that says who they are."""


class Caller(Protocol):
    """Who has sent a request."""

    @property
    def name(self) -> str:
        """The name of the caller's token, or of a caller for whom others vouch; :data:`ANONYMOUS` where there is
        nothing."""

    @property
    def author(self) -> str:
        """The same for the log and the history, with what it is the name of: ``token NAME``."""

    def may(self, right: Right, service: str) -> bool:
        """Whether the caller has a right for a service (a data id or a data info id). Lists show what may be read."""

    def require(self, right: Right, service: str) -> None:
        """Check a right.

        Raises:
            Forbidden: the caller does not have it; the message names the right and the service.
            Unauthenticated: the same, of a caller without a token.
        """


class GatewayAccess(Protocol):
    """Knows callers by their tokens."""

    def caller(self, token: str | None) -> Caller:
        """Whose token it is. None: the request brought none.

        Raises:
            Unauthenticated: the token is unknown, revoked or expired, or one is needed.
            Unreachable: the gateway has not learnt the tokens from the registry yet.
        """


class _Anybody:
    """A caller without limits, where the gateway asks for no tokens."""

    name = author = ANONYMOUS

    def may(self, right: Right, service: str) -> bool:
        return True

    def require(self, right: Right, service: str) -> None:
        return None


class OpenAccess:
    """Everybody may do everything, and tokens are ignored: for a gateway that only its own machine can reach."""

    def caller(self, token: str | None) -> Caller:
        """See :class:`GatewayAccess`."""
        return _Anybody()
