"""Commands of operators that ask a gateway (its face ``admin``) instead of the servers."""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from slotreeve.errors import ConfigError, RequestError, SlotreeveError, Unreachable
from slotreeve_client.reports import (
    ClientReport,
    ClientsReport,
    ServerReport,
    SubscriberReport,
    SubscribersReport,
    UseReport,
    UsesReport,
)

SECONDS = 30.0
PAGE = 1_000
T = TypeVar("T")


class _ProblemSaid(msgspec.Struct):
    """What is read of a problem (RFC 9457)."""

    detail: str = ""
    code: str = ""


class UndoSaid(msgspec.Struct):
    """What is read of the act that undoes another one."""

    command: str


class ActSaid(msgspec.Struct):
    """What an act did, as a gateway or a command says it."""

    done: bool
    sentences: list[str]
    undo: UndoSaid | None = None


class WriteSaid(ActSaid):
    """What writing a value did; ``version`` is that of the value."""

    version: int = 0


class MetaSaid(msgspec.Struct):
    """What is read of a meta server."""

    name: str
    address: str
    state: str
    leader: str | None
    term: int | None


class ElectionSaid(msgspec.Struct):
    """What is read of the election."""

    leader: str | None
    term: int | None
    meta_servers: list[MetaSaid]


class OverrideSaid(msgspec.Struct):
    """What is read of an override."""

    service: str
    id: str
    weight: int | None
    enabled: bool | None
    drain: bool
    note: str


class OverridesSaid(msgspec.Struct):
    """What is read of all overrides."""

    overrides: list[OverrideSaid]


class ValueSaid(msgspec.Struct):
    """What is read of a value of the provided configuration."""

    key: str
    version: int
    value: str | None
    base64: bytes | None = None


class KeySaid(msgspec.Struct):
    """What is read of a key of the provided configuration."""

    key: str
    version: int
    is_own: bool


class KeysSaid(msgspec.Struct):
    """What is read of a page of keys."""

    keys: list[KeySaid]
    next: str | None


class DumpLineSaid(msgspec.Struct):
    """What is read of a line of a dump. The last one names no service."""

    service: str = ""
    providers: list[dict[str, object]] | int = 0
    problem: str = ""
    code: str = ""


class MembersSaid(msgspec.Struct):
    """What is read of all servers."""

    servers: list[ServerReport]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the gateway that was named, and to no other place."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class ThroughGateway:
    """Asks one gateway. ``token_file`` holds the token; None: it asks without one.

    Raises:
        ConfigError: the URL is none of a gateway, or the file cannot be read.
    """

    def __init__(self, url: str, token_file: Path | None) -> None:
        try:
            parts = urlsplit(url if "//" in url else f"http://{url}")
            is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port or an IPv6 address that is none
            is_good = False
        if not is_good or parts.path.strip("/"):
            raise ConfigError(f"--gateway {url}: expected http://host:port or https://host:port")
        self._base = f"{parts.scheme}://{parts.netloc}/v1/admin"
        self._headers = {"Content-Type": "application/json"}
        if token_file is not None:
            self._headers["Authorization"] = f"Bearer {_token(token_file)}"
        self._opener = urllib.request.build_opener(_NoRedirect)

    def read(self, path: str, kind: type[T], **query: str | int) -> T:
        """The page at ``path``, which is encoded already, below ``/v1/admin``.

        Raises:
            SlotreeveError: the gateway refuses it; the error has the code that it says.
            Unreachable: no gateway with the face ``admin`` answers.
        """
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path, None, kind)

    def act(self, method: str, path: str, body: dict[str, object] | None = None, *, dry_run: bool = False) -> ActSaid:
        """Carry an act out; with ``dry_run`` only ask what it would do. Raises as :meth:`read`."""
        return self._ask(method, f"{path}?dry_run=true" if dry_run else path, body, ActSaid)

    def write(self, key: str, value: bytes | None, expected_version: int | None) -> WriteSaid:
        """Write a key of the provided configuration; ``value`` None: delete it. Raises as :meth:`read`."""
        path = f"configuration/{quote(key, safe='')}"
        expected = {} if expected_version is None else {"expected_version": expected_version}
        if value is None:
            return self._ask("DELETE", f"{path}?{urlencode(expected)}" if expected else path, None, WriteSaid)
        return self._ask("PUT", path, {"base64": base64.b64encode(value).decode(), **expected}, WriteSaid)

    def value(self, key: str) -> ValueSaid:
        """A key of the provided configuration. Raises as :meth:`read`; NotThere: there is none."""
        return self.read(f"configuration/{quote(key, safe='')}", ValueSaid)

    def keys(self) -> list[KeySaid]:
        """All keys of the provided configuration. Raises as :meth:`read`."""
        found: list[KeySaid] = []
        after: str | None = ""
        while after is not None:
            page = self.read("configuration", KeysSaid, after=after, limit=PAGE)
            found, after = found + page.keys, page.next
        return found

    def clients(self, prefix: str, application: str | None = None) -> ClientsReport:
        """All connected clients whose id or address begins so, or those of one application of them. Raises as
        :meth:`read`."""
        only = {} if application is None else {"application": application}
        found: list[ClientReport] = []
        after: str | None = ""
        while after is not None:
            page = self.read("clients", ClientsReport, prefix=prefix, after=after, limit=PAGE, **only)
            found, after = found + page.clients, page.next
        return msgspec.structs.replace(page, clients=found)

    def uses(self, application: str) -> UsesReport:
        """All that an application publishes and subscribes to. Raises as :meth:`read`."""
        found: list[UseReport] = []
        after: str | None = ""
        while after is not None:
            page = self.read(f"applications/{quote(application, safe='')}", UsesReport, after=after, limit=PAGE)
            found, after = found + page.uses, page.next
        return msgspec.structs.replace(page, uses=found)

    def subscribers(self, service: str) -> SubscribersReport:
        """All subscribers of a service. Raises as :meth:`read`."""
        found: list[SubscriberReport] = []
        after: str | None = ""
        while after is not None:
            path = f"services/{quote(service, safe='')}/subscribers"
            page = self.read(path, SubscribersReport, after=after, limit=PAGE)
            found, after = found + page.subscribers, page.next
        return msgspec.structs.replace(page, subscribers=found)

    def lines(self, path: str, **query: str) -> Iterator[bytes]:
        """The lines of a page, as they arrive. Raises as :meth:`read`; Unreachable also where they are cut off."""
        request = urllib.request.Request(f"{self._base}/{path}?{urlencode(query)}", None, self._headers)  # noqa: S310
        with self._answer(request) as answer:
            yield from answer

    def _ask(self, method: str, path: str, body: dict[str, object] | None, kind: type[T]) -> T:
        data = None if body is None else msgspec.json.encode(body)
        request = urllib.request.Request(f"{self._base}/{path}", data, self._headers, method=method)  # noqa: S310 - http
        with self._answer(request) as answer:
            return msgspec.json.decode(answer.read(), type=kind)

    @contextmanager
    def _answer(self, request: urllib.request.Request) -> Iterator[IO[bytes]]:
        """The answer to a request, while it is read. Raises as :meth:`read`."""
        try:
            try:
                with self._opener.open(request, timeout=SECONDS) as answer:
                    yield answer
            except urllib.error.HTTPError as error:
                with error:
                    raise _refusal(error.code, error.read()) from None
        except (OSError, ValueError, HTTPException) as error:
            raise Unreachable(f"{self._base}: {getattr(error, 'reason', None) or error}") from None


def gateway_of(url: str, token_file: Path | None) -> ThroughGateway | None:
    """The gateway that ``--gateway`` names; None: the servers are asked. Raises ConfigError."""
    return ThroughGateway(url, token_file) if url else None


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file {file}: cannot be read: {error}") from None
    if not token or any(character.isspace() for character in token):
        raise ConfigError(f"--token-file {file}: expected one token, as slotreeve gateway token issue prints it")
    return token


def _refusal(status: int, body: bytes) -> SlotreeveError:
    """The error that an answer tells of."""
    try:
        said = msgspec.json.decode(body, type=_ProblemSaid)
    except msgspec.DecodeError:
        said = _ProblemSaid()
    if not said.code:
        return Unreachable(f"the gateway answers with the status {status} {said.detail}; does its face.use name admin?")
    return error_of(said.code, said.detail)


def error_of(code: str, detail: str) -> SlotreeveError:
    """The error of a kind that a gateway has said."""
    kinds = [*SlotreeveError.__subclasses__()]
    for kind in kinds:
        if kind.code == code:
            return kind(detail)
        kinds += kind.__subclasses__()
    return RequestError(f"{detail} ({code})")
