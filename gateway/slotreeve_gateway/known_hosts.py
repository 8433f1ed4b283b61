"""By which names callers without a token may come. Pure.

A browser sends the request of any page to whatever its name stands for. A page can let its own name stand for this
machine (DNS rebinding), and would then read what a gateway without tokens tells those on the same machine.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from slotreeve.errors import Forbidden
from starlette.types import Scope

from slotreeve_gateway.access import ANONYMOUS, Caller

_USUAL_PORT = re.compile(r":(80|443)$").sub


class KnownHosts:
    """IP addresses and ``localhost`` are known.

    Args:
        hosts: further names, without ports.
        setting: where they stand in a configuration, for the message.
    """

    def __init__(self, hosts: Iterable[str], setting: str) -> None:
        self._hosts, self._setting = frozenset(name.lower() for name in hosts), setting

    def check(self, host: str | None, caller: Caller) -> None:
        """Look at the header ``Host`` of a request; None: it has none, so no browser has sent it.

        Raises:
            Forbidden: the caller has no token, and the name is not known.
        """
        if host is not None and caller.name == ANONYMOUS and not self._is_known(host):
            raise Forbidden(
                f"the header Host is {host[:80]!r}; a caller without a token comes by an IP address, localhost, or a "
                f"name in {self._setting}"
            )

    def _is_known(self, host: str) -> bool:
        name = _name(host)
        if name == "localhost" or name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def require_own_origin(origin: str | None, host: str | None) -> None:
    """Check the header ``Origin`` of a request that changes something. Browsers send it; None: there is none.

    Raises:
        Forbidden: a page of another origin has made the request.
    """
    if origin is not None and (not host or _place(origin) != host.lower()):
        raise Forbidden(f"the header Origin is {origin[:80]!r}, and Host is {(host or '')[:80]!r}; expected the same")


def is_of_another_page(scope: Scope) -> bool:
    """Whether a web page of another origin has made a request, by the headers that its browser has added. A page that
    somebody looks at may be opened by a link from anywhere; what it shows, no other page can read."""
    headers = dict(scope["headers"])
    site = headers.get(b"sec-fetch-site", b"")
    if site == b"cross-site" and headers.get(b"sec-fetch-mode") != b"navigate":
        return True
    origin = headers.get(b"origin")
    place = _place(origin.decode("latin-1")) if origin is not None else ""
    host = _USUAL_PORT("", headers.get(b"host", b"").decode("latin-1").lower())
    return origin is not None and (not place or _USUAL_PORT("", place) != host)


def _place(origin: str) -> str:
    """Host and port of an origin; empty if it has none, as ``null``."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name(host: str) -> str:
    """The name in a header Host, without the port and the brackets of IPv6."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
