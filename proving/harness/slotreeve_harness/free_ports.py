"""Free ports on loopback for servers that are started soon, by this process or by others beside it."""

from __future__ import annotations

import atexit
import random
import socket
from collections import deque

from slotreeve_servers.launch import ROLE_PORTS

PORTS = range(15_000, 32_000)
"""Below those that the system gives to outgoing connections."""
USED_PORTS = 4
"""A server listens at its port and at up to three above it: HTTP, election or DNS, shadow election."""
STRIDE = USED_PORTS + 1
HELD_CLAIMS = 256
"""A claim matters until its server listens. More claims than this are never that young."""


class PortClaims:
    """Groups of ports, of which no two are given out at once on one machine.

    The port above each group is bound as long as the claim is held: neither this process nor another that starts
    servers at the same time gets the group before its servers listen.
    """

    def __init__(self, limit: int = HELD_CLAIMS) -> None:
        self._held: deque[socket.socket] = deque()
        self._limit = limit

    def take(self, port: int) -> bool:
        """Claim the group that begins at ``port``; False if one of its ports is bound or claimed."""
        claim = _bound(port + USED_PORTS)
        if claim is None:
            return False
        if not all(_is_free(port + number) for number in range(USED_PORTS)):
            claim.close()
            return False
        self._held.append(claim)
        if len(self._held) > self._limit:
            self._held.popleft().close()
        return True

    def close(self) -> None:
        """Give all claims back."""
        while self._held:
            self._held.pop().close()


_CLAIMS = PortClaims()
atexit.register(_CLAIMS.close)


def free_address() -> str:
    """An address on loopback that can be bound now, as can the three ports above."""
    return f"127.0.0.1:{free_ports(1, random.Random())[0]}"


def free_ports(count: int, rng: random.Random) -> list[int]:
    """Ports that can be bound now, as can the three above each; ``rng`` decides which are tried."""
    found: list[int] = []
    while len(found) < count:
        port = rng.randrange(PORTS.start, PORTS.stop, STRIDE)
        if _CLAIMS.take(port):
            found.append(port)
    return found


def free_offset(rng: random.Random) -> int:
    """A number to add to the usual ports of all roles, such that each can be bound, as can the three above it."""
    lowest, highest = min(ROLE_PORTS.values()), max(ROLE_PORTS.values())
    while True:
        offset = rng.randrange(PORTS.start - lowest, PORTS.stop - highest - USED_PORTS, STRIDE)
        if all(_CLAIMS.take(port + offset) for port in ROLE_PORTS.values()):
            return offset


def _bound(port: int) -> socket.socket | None:
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        one.close()
        return None
    return one


def _is_free(port: int) -> bool:
    one = _bound(port)
    if one is not None:
        one.close()
    return one is not None
