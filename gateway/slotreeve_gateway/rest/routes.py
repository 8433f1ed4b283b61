"""Which operation a request asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote

from msgspec import Struct
from slotreeve.errors import NotThere, RequestError

from slotreeve_gateway.access import Right
from slotreeve_gateway.rest.queries import NoQuery

H = TypeVar("H")


class NoSuchMethod(RequestError):
    """The path is there, and does not know the method. ``allowed`` are those that it knows."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


@dataclass(frozen=True)
class Answer:
    """One answer of an operation.

    Attributes:
        says: what it means, for the description.
        body: the type of its JSON; None: it has no body.
        media: its media type.
    """

    says: str
    body: type[Struct] | None = None
    media: str = "application/json"


@dataclass(frozen=True)
class RestOperation(Generic[H]):
    """What one method of one path does, for the dispatch and for the description.

    Attributes:
        method, path: the path has names in braces.
        name: its id in the description.
        summary: what it does, for people.
        handler: what answers.
        answers: the good answer and those of its own, by status.
        right: what the caller needs for the service in the path; None: the handler asks for each service.
        query: the query parameters.
        body: the body; None: it has none.
        last_event: whether it reads the header Last-Event-ID.
        for_all: whether the caller needs the right for all services, not for the one in the path.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: H
    answers: Mapping[int, Answer]
    right: Right | None = None
    query: type[Struct] = NoQuery
    body: type[Struct] | None = None
    last_event: bool = False
    for_all: bool = False


class RestRoutes(Generic[H]):
    """The operations by path and method. ``listed_at``: the path of their description, for those who ask in vain."""

    def __init__(self, operations: Iterable[RestOperation[H]], listed_at: str) -> None:
        self._listed_at = listed_at
        self._paths: dict[int, dict[str, tuple[list[str], dict[str, RestOperation[H]]]]] = {}
        for operation in operations:
            segments = operation.path.split("/")
            of_length = self._paths.setdefault(len(segments), {})
            of_length.setdefault(operation.path, (segments, {}))[1][operation.method] = operation

    def find(self, method: str, raw_path: bytes) -> tuple[RestOperation[H], dict[str, str]]:
        """The operation, and what stands in the places of the names in its path.

        A path is cut at its slashes before it is decoded, so that a name may contain ``%2F``.

        Raises:
            NotThere: there is no such path.
            NoSuchMethod: it does not know the method.
            RequestError: the path is not UTF-8.
        """
        given = raw_path.decode("latin-1").split("/")
        for segments, methods in self._paths.get(len(given), {}).values():
            found = _names(segments, given)
            if found is not None:
                operation = methods.get("GET" if method == "HEAD" else method)
                if operation is None:
                    allowed = (*methods, *(["HEAD"] if "GET" in methods else []))
                    raise NoSuchMethod(f"{method[:20]} is not for this path; it knows {', '.join(allowed)}", allowed)
                return operation, found
        raise NotThere(f"there is no page {'/'.join(given)[:200]}; {self._listed_at} lists all of them")


def _names(segments: list[str], given: list[str]) -> dict[str, str] | None:
    """The names of a path; None: it is another path."""
    found: dict[str, str] = {}
    for wanted, there in zip(segments, given, strict=True):
        if wanted.startswith("{"):
            found[wanted[1:-1]] = there
        elif wanted != there:
            return None
    for name, value in found.items():
        if "%" in value or not value.isascii():
            found[name] = _decoded(value)
    return found


def _decoded(value: str) -> str:
    try:
        return unquote(value.encode("latin-1").decode(), errors="strict")
    except UnicodeDecodeError:
        raise RequestError(f"the path has {value[:80]!r}, which is not UTF-8") from None
