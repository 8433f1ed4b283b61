"""A request of a client of Consul, and the answer to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slotreeve_gateway import Caller
from starlette.types import Receive, Scope

from slotreeve_face_consul.queries import ConsulQuery

JSON, TEXT = b"application/json", b"text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ConsulRequest:
    """A request whose caller is known.

    Attributes:
        name: what stands behind the page in the path: the name of a service, or an id.
    """

    caller: Caller
    query: ConsulQuery
    name: str
    scope: Scope
    receive: Receive


@dataclass(frozen=True, slots=True)
class ConsulAnswer:
    """An answer. ``index`` 0: it is no answer to a blocking query. ``allowed``: the methods that the path takes."""

    body: bytes = b""
    index: int = 0
    status: int = 200
    kind: bytes = JSON
    allowed: str = ""


EMPTY = ConsulAnswer()

Page = Callable[[ConsulRequest], Awaitable[ConsulAnswer]]
