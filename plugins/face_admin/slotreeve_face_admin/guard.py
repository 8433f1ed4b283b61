"""Which requests are refused although their callers have the right: those that a web page may have made. Pure.

A browser sends a request of any page to any address, also to one that only its own machine can reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slotreeve_gateway import Caller
from slotreeve_gateway.known_hosts import KnownHosts, require_own_origin
from slotreeve_gateway.rest import RestOperation
from slotreeve_gateway.rest.bodies import require_json
from starlette.requests import Request

READS = ("GET", "HEAD")


class BrowserGuard:
    """A :data:`slotreeve_gateway.rest.Guard`. ``hosts``: names by which callers without a token may come."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = KnownHosts(hosts, "face.admin.hosts")

    def __call__(self, request: Request, operation: RestOperation[Any], caller: Caller) -> None:
        """Look at a request.

        Raises:
            Forbidden: a page of another origin has made it, or one whose name was made to stand for this machine.
            WrongMedia: it is an act, and does not say that it is JSON, which a form of a page cannot say.
        """
        host = request.headers.get("host")
        self._hosts.check(host, caller)
        if operation.method in READS:
            return
        require_own_origin(request.headers.get("origin"), host)
        require_json(request, is_needed=True)
