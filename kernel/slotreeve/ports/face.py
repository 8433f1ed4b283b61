"""The contract of faces: the languages in which a gateway speaks with programs that do not use our client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class Face(Protocol):
    """One language, such as REST, Consul's interface or DNS. A gateway may have several faces.

    ``build`` gets the gateway as ``context.gateway``, which is a ``slotreeve_gateway.Gateway``: the registry, who may
    do what, and the HTTP listener that faces share. All methods are called on the gateway's event loop.
    """

    async def start(self) -> None:
        """Begin to answer. The registry can be used already.

        Raises:
            SlotreeveError: it cannot, e.g. because an address is taken. The gateway does not start then.
        """

    async def stop(self) -> None:
        """End. Open requests may be answered, for a second at most. Idempotent."""

    def counters(self) -> Mapping[str, int]:
        """What it counted since its start, for the gateway's metrics. Each name begins with the face's."""
