"""Where the request comes from that is answered now."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from slotreeve_console.http_connection import CERTIFICATE as CERTIFICATE
from slotreeve_console.http_connection import ShownCertificate as ShownCertificate
from starlette.types import Scope

NO_CERTIFICATE = ShownCertificate((), 0)
_OF_BROWSERS = (b"origin", b"sec-fetch-site")


@dataclass(frozen=True)
class Origin:
    """Attributes:
    address: of the caller; empty where a face does not say it.
    certificate: what the caller has shown, unless it is a browser, which shows its certificate with the requests of any
        page.
    """

    address: str = ""
    certificate: ShownCertificate = NO_CERTIFICATE

    @classmethod
    def of(cls, scope: Scope) -> Origin:
        """The origin of an HTTP request."""
        client = scope.get("client")
        shown = scope.get("state", {}).get(CERTIFICATE, NO_CERTIFICATE)
        if shown.ids and any(name in _OF_BROWSERS for name, _ in scope["headers"]):
            shown = NO_CERTIFICATE
        return cls(client[0] if client else "", shown)


NOWHERE = Origin()
ORIGIN: ContextVar[Origin] = ContextVar("ORIGIN", default=NOWHERE)
