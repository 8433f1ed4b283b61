"""Who may do what through a gateway."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Right(StrEnum):
    """What a caller may do with the services whose data id matches a pattern."""

    READ = "read"
    """See the service and its instances."""
    REGISTER = "register"
    """Register, renew and end instances."""
    OPERATE = "operate"
    """Override what providers say."""


class Caller(Protocol):
    """Who has sent a request."""

    @property
    def name(self) -> str:
        """The name of the caller's token, for the log; ``anonymous`` where there is none."""

    def may(self, right: Right, service: str) -> bool:
        """Whether the caller has a right for a service (a data id or a data info id). Lists show what may be read."""

    def require(self, right: Right, service: str) -> None:
        """Check a right.

        Raises:
            Forbidden: the caller does not have it; the message names the right and the service.
        """


class Access(Protocol):
    """Knows callers by their tokens."""

    def caller(self, token: str | None) -> Caller:
        """Whose token it is. None: the request brought none.

        Raises:
            Unauthenticated: the token is unknown, revoked or expired, or one is needed.
        """


class _Anybody:
    """A caller without limits, where the gateway asks for no tokens."""

    name = "anonymous"

    def may(self, right: Right, service: str) -> bool:
        return True

    def require(self, right: Right, service: str) -> None:
        return None


class OpenAccess:
    """Everybody may do everything, and tokens are ignored: for a gateway that only its own machine can reach."""

    def caller(self, token: str | None) -> Caller:
        """See :class:`Access`."""
        return _Anybody()
