"""One request, as the handlers of the operations get it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from slotreeve_gateway.access import Caller


@dataclass(slots=True)
class RestCall:
    """A request that is understood, and whose caller has the right that its operation needs.

    Attributes:
        request: the request; its body has been read.
        caller: who has sent it.
        names: what stands in the places of the path.
        query, body: of the types that the operation names.
    """

    request: Request
    caller: Caller
    names: Mapping[str, str]
    query: Any
    body: Any

    @property
    def service(self) -> str:
        """The service in the path."""
        return self.names["service"]

    @property
    def id(self) -> str:
        """The id of the instance in the path."""
        return self.names["id"]


Handler = Callable[[RestCall], Awaitable[Response]]
