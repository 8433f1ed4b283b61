"""A source: another registry, whose instances are read one state after the other."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from slotreeve.errors import ModelError, RequestError, SlotreeveError, Unreachable
from slotreeve_client import Instance
from slotreeve_protocol.instance import MAX_METADATA

from slotreeve_mirror.mirror import MARK, LeasePlace, SourceState

log = logging.getLogger("slotreeve.mirror")
SECONDS = 10.0
"""How long a question may take, without the time that it may wait for a change."""


class MirrorSource(Protocol):
    """Reads the states of a registry."""

    def states(self) -> AsyncGenerator[SourceState, None]:
        """All instances at once, then again whenever they may have changed. Never ends by itself.

        Raises:
            Unreachable: the registry does not answer. Call it again later.
            RequestError: it answers something else than this source reads.
        """


class Narrowed:
    """A source without the services that are not admitted, by their data info ids."""

    def __init__(self, source: MirrorSource, admits: Callable[[str], bool]) -> None:
        self._source, self._admits = source, admits

    async def states(self) -> AsyncGenerator[SourceState, None]:
        """See :class:`MirrorSource`."""
        async with aclosing(self._source.states()) as states:
            async for state in states:
                kept = {place: instance for place, instance in state.instances.items() if self._admits(place.service)}
                yield SourceState(kept, frozenset(filter(self._admits, state.unknown)))


async def first_of(source: MirrorSource) -> SourceState:
    """What a source shows now. Raises Unreachable, RequestError."""
    async with aclosing(source.states()) as states:
        return await anext(states)


def can_be_read(url: str) -> bool:
    """Whether this is a URL that can be asked: of HTTP, with a host and a port that there may be."""
    try:
        parts = httpx.URL(url)
        has_port = parts.port is None or 0 < parts.port < 65536
        return parts.scheme in ("http", "https") and bool(parts.host) and has_port
    except (httpx.InvalidURL, ValueError):  # of the second kind are host names that IDNA refuses
        return False


def without_password(url: str) -> str:
    """A URL without the account and the password in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class SourcePages:
    """Reads JSON of a registry over HTTP. One event loop; close it at its end.

    Attributes:
        url: of the registry, for messages: without a password.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._asked = url.rstrip("/")
        self.url = without_password(self._asked)
        limits = httpx.Limits(max_connections=None)  # each service of Consul waits on one of its own
        self._http = httpx.AsyncClient(headers=headers, timeout=SECONDS, limits=limits, transport=transport)

    async def read(
        self, path: str, parameters: Mapping[str, str | int] | None = None, wait_seconds: float = 0.0
    ) -> tuple[Any, httpx.Headers]:
        """The JSON at a path, and the headers of the answer. It may wait so long for a change.

        Raises:
            Unreachable: no answer.
            RequestError: an answer that is no JSON, or with a status that is not 200.
        """
        where = f"{self.url}/{path}"
        try:
            answer = await self._http.get(f"{self._asked}/{path}", params=parameters, timeout=SECONDS + wait_seconds)
        except httpx.HTTPError as error:
            raise Unreachable(f"{where} does not answer: {error or type(error).__name__}") from None
        if answer.status_code >= 500:
            raise Unreachable(f"{where} answers {answer.status_code}: {answer.text[:200]}")
        if answer.status_code != 200:
            raise RequestError(f"{where} answers {answer.status_code}: {answer.text[:200]}; expected 200")
        try:
            return answer.json(), answer.headers
        except ValueError as error:
            raise RequestError(f"{where} answers no JSON ({error})") from None

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()


class Reader:
    """Turns what a source says of an instance into one of ours, and says once of each that cannot be."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def add(self, seen: dict[LeasePlace, Instance], what: str, made: Callable[[], tuple[str, Instance]]) -> None:
        """Add what ``made`` returns, a data info id and an instance. ``what`` names it for people."""
        try:
            service, instance = made()
            if len(instance.metadata) >= MAX_METADATA:
                raise ModelError(
                    f"it has {len(instance.metadata)} entries of metadata; expected fewer, with room for {MARK}"
                )
        except ModelError as error:
            self.tell(what, error)
            return
        place = LeasePlace(service, instance.id)
        if place in seen:
            self.tell(what, ModelError(f"{service} has {instance.id!r} already; expected another id"))
        else:
            seen[place] = instance

    def tell(self, what: str, error: SlotreeveError) -> None:
        """Say once that this is left out, and why."""
        if what not in self._told:
            self._told.add(what)
            log.warning("%s is left out: %s", what, error)


def expected(where: str, value: object, kind: type[Any]) -> Any:
    """``value``, if it is of this kind of JSON.

    Raises:
        RequestError: it is not.
    """
    if not isinstance(value, kind):
        raise RequestError(f"{where}: {str(value)[:100]!r} is no {kind.__name__}")
    return value
