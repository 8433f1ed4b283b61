"""Where the request comes from that is answered now."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from slotreeve_console.http_connection import CERTIFICATE_IDS as CERTIFICATE_IDS
from starlette.types import Scope

_OF_BROWSERS = (b"origin", b"sec-fetch-site")


@dataclass(frozen=True)
class Origin:
    """Attributes:
    address: of the caller; empty where a face does not say it.
    certificate_ids: the URIs in the certificate that the caller has shown, such as SPIFFE ids. None of a browser,
        which shows its certificate with the requests of any page.
    """

    address: str = ""
    certificate_ids: tuple[str, ...] = ()

    @classmethod
    def of(cls, scope: Scope) -> Origin:
        """The origin of an HTTP request."""
        client = scope.get("client")
        ids = scope.get("state", {}).get(CERTIFICATE_IDS, ())
        if ids and any(name in _OF_BROWSERS for name, _ in scope["headers"]):
            ids = ()
        return cls(client[0] if client else "", ids)


NOWHERE = Origin()
ORIGIN: ContextVar[Origin] = ContextVar("ORIGIN", default=NOWHERE)
