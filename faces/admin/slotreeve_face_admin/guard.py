"""Which requests are refused although their callers have the right: those that a web page may have made. Pure.

A browser sends a request of any page to any address, also to one that only its own machine can reach.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from slotreeve.errors import Forbidden
from slotreeve_gateway import Caller
from slotreeve_gateway.access import ANONYMOUS
from slotreeve_gateway.rest import RestOperation
from slotreeve_gateway.rest.bodies import require_json
from starlette.requests import Request

READS = ("GET", "HEAD")


class BrowserGuard:
    """A :data:`slotreeve_gateway.rest.Guard`. ``hosts``: names by which callers without a token may come."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = frozenset(name.lower() for name in hosts)

    def __call__(self, request: Request, operation: RestOperation[Any], caller: Caller) -> None:
        """Look at a request.

        Raises:
            Forbidden: a page of another origin has made it, or one whose name was made to stand for this machine.
            WrongMedia: it is an act, and does not say that it is JSON, which a form of a page cannot say.
        """
        host = request.headers.get("host")
        if host is not None and caller.name == ANONYMOUS and not self._is_known(host):
            raise Forbidden(
                f"the header Host is {host[:80]!r}; a caller without a token comes by an IP address, localhost, or a "
                "name in face.admin.hosts"
            )
        if operation.method in READS:
            return
        origin = request.headers.get("origin")
        if origin is not None and (not host or _place(origin) != host.lower()):
            raise Forbidden(
                f"the header Origin is {origin[:80]!r}, and Host is {(host or '')[:80]!r}; expected the same"
            )
        require_json(request, is_needed=True)

    def _is_known(self, host: str) -> bool:
        name = _name(host)
        if name == "localhost" or name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _name(host: str) -> str:
    """The name in a header Host, without the port and the brackets of IPv6."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _place(origin: str) -> str:
    """Host and port of an origin; empty if it has none, as ``null``."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
