"""One HTTP/1.1 connection within its limits (uvicorn with httptools, which by themselves wait and read for ever)."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from slotreeve_console.limits import Counts, HttpLimits
from slotreeve_console.places import ConnectionPlaces

CERTIFICATE = "certificate"
"""Under it the state of a request has the :class:`ShownCertificate` of its caller, if it has shown one."""
MOST_HEADERS = 100
MOST_PIPELINED = 16
"""Requests that a caller may send ahead of the answer to the first one."""
_OFFER = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_PLAIN = object()
_BAD, _TOO_LARGE = 400, 431
_PHRASES = {_BAD: b"Bad Request", _TOO_LARGE: b"Request Header Fields Too Large"}
_BUSY = b'{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"too many connections"}'


class ShownCertificate(NamedTuple):
    """What counts of a caller's certificate. A request may take longer than it is good.

    Attributes:
        ids: its URIs, such as SPIFFE ids.
        ends_ms: when it ends, in milliseconds of the wall clock.
    """

    ids: tuple[str, ...]
    ends_ms: float


class _Refused(Exception):
    """Ends the parser's work; it becomes an answer by :meth:`HttpConnection.send_400_response`."""


class _Awaited(Enum):
    """What the caller is to send next."""

    REQUEST = "the rest of a head, or the first one"
    BODY = "the rest of a body"
    NOTHING = "nothing: its request is complete"


class HttpConnection(HttpToolsProtocol):
    """One connection. Its end calls :meth:`look` about once a second.

    It stays in ``state.connections`` until the work for its last request has ended, so that callers who ask and hang up
    cannot pile up work without limit.

    Args:
        places: of all connections of the listener.

    Attributes:
        taken_by: when its caller must have taken what fills the buffer; None: it is not full.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        limits: HttpLimits,
        counts: Counts,
        places: ConnectionPlaces,
    ) -> None:
        super().__init__(config, state, {})
        self._places = places
        self.tasks = set()  # of this connection only, unlike uvicorn's
        self._limits, self._counts = limits, counts
        self._awaited = _Awaited.NOTHING
        self._due = 0.0
        self.taken_by: float | None = None
        self._head_bytes = self._unparsed_bytes = 0
        self._status = _BAD
        self._is_refused = self._is_gone = self._is_ending = False
        self._certificate: ShownCertificate | None = None

    # --- what arrives ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            ends_ms = 1000 * ssl.cert_time_to_seconds(certificate["notAfter"])
            self._certificate = ShownCertificate(_uris_of(certificate), ends_ms)
        self._await(_Awaited.REQUEST, self._limits.head_seconds)
        if not self._places.comes(self, self._limits.connections, self.loop.time()):
            self._counts.refused_connections += 1
            self._is_refused = True

    def data_received(self, data: bytes) -> None:
        """Parse what has come. The parser keeps an unfinished header for itself, of any length; so what it has not
        handed out is bounded here."""
        if self._awaited is _Awaited.NOTHING:
            self._await(_Awaited.REQUEST, self._limits.head_seconds)
        self._unparsed_bytes += len(data)
        super().data_received(_without_offer(data) if self._awaited is _Awaited.REQUEST else data)
        if self._unparsed_bytes > self._limits.head_bytes and not self.transport.is_closing():
            self._status = _TOO_LARGE
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        if self._certificate is not None:
            self.scope["state"][CERTIFICATE] = self._certificate
        self._head_bytes = 0
        if self._awaited is not _Awaited.REQUEST:
            self._await(_Awaited.REQUEST, self._limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        """A part of the path."""
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer after a body."""
        self._unparsed_bytes = 0
        self._grow(len(name) + len(value) + 4)
        super().on_header(name, value)
        if len(self.headers) > MOST_HEADERS:
            self._refuse(_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """The application can begin."""
        self._unparsed_bytes = 0
        self._await(_Awaited.BODY, self._limits.body_seconds)
        if len(self.pipeline) >= MOST_PIPELINED or self.parser.should_upgrade() or not self._names_its_host():
            self._refuse(_BAD)
        if self._is_refused:
            self.app = _busy
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before and not self._is_refused:
            self.cycle.transport = _Answered(self.transport, self._end_after_body)  # type: ignore[assignment]

    def _end_after_body(self) -> None:
        """The last answer is complete. Where the rest of its request is still coming, the connection ends when it has
        come, in the time that a body has: with data that was not read an end is a reset, in which the answer is lost
        (RFC 9112, 9.6)."""
        if self._awaited is _Awaited.BODY:
            self._is_ending = True
        else:
            self.transport.close()

    def _names_its_host(self) -> bool:
        """Whether there is the one header Host that HTTP/1.1 demands (RFC 9112, 3.2): a proxy before us may have taken
        another one for it."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        return hosts == 1 or (hosts == 0 and self.parser.get_http_version() != "1.1")

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete. Where it was answered before that, the connection waits for the next one."""
        self._unparsed_bytes = 0
        if self._is_ending:
            self.transport.close()
        elif self._is_answering:
            self._awaited = _Awaited.NOTHING
            self._places.asks(self)
        else:
            self._await(_Awaited.REQUEST, self._limits.head_seconds)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is complete: without a further request the connection waits for one again."""
        super().on_response_complete()
        if not self._is_answering and not self.transport.is_closing():
            self._places.is_answered(self, self.loop.time())

    def _await(self, what: _Awaited, seconds: float) -> None:
        self._awaited, self._due = what, self.loop.time() + seconds

    def _grow(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes:
            self._refuse(_TOO_LARGE)

    def _refuse(self, status: int) -> None:
        self._status = status
        raise _Refused

    def send_400_response(self, msg: str) -> None:
        """Refuse what has come, and end the connection."""
        self._counts.bad_requests += 1
        if self._is_answering and (self.cycle.response_started or self.pipeline):
            self.transport.close()  # an answer is on its way: a second one in the midst of it would be read as its part
            return
        if self._is_answering:
            self.cycle.disconnected = True  # it has not begun to answer, and this is the answer
        phrase = _PHRASES[self._status]
        head = b"HTTP/1.1 %d %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
        self.transport.write(head % (self._status, phrase, len(phrase), phrase))
        self.transport.close()

    # --- what is sent ----------------------------------------------------------------------------------------------

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def pause_writing(self) -> None:
        """The buffer is full: the caller takes nothing, or less than is sent."""
        super().pause_writing()
        self.taken_by = self.loop.time() + self._limits.write_seconds

    def resume_writing(self) -> None:
        """The buffer has room again."""
        super().resume_writing()
        self.taken_by = None

    # --- its end ---------------------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended. What has been asked for is still done, for some time: a caller may say goodbye
        and leave without waiting for the answer."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        if self._is_at_work:
            self._places.asks(self)
            self._is_gone = True
            self._due = self.loop.time() + self._limits.write_seconds
            self.connections.add(self)
        else:
            self._places.goes(self)

    @property
    def _is_at_work(self) -> bool:
        """Whether something that was asked for is not done. A task that has sent the last answer, and has closed the
        connection by that, is done before its callback has taken it away."""
        return not all(task.done() for task in self.tasks)

    def look(self, now: float) -> None:
        """End the connection where its caller is too slow."""
        if self._is_gone:
            if not self._is_at_work:
                self.connections.discard(self)
                self._places.goes(self)
            elif now >= self._due:
                self.cancel()
            return
        if self.taken_by is None and self.transport.is_closing():
            self.taken_by = now + self._limits.write_seconds
        if self.taken_by is not None and now >= self.taken_by:
            self.give_up()
        elif self._awaited is not _Awaited.NOTHING and now >= self._due and not self.transport.is_closing():
            if self._awaited is _Awaited.REQUEST and self._is_answering:
                self._due = now + self._limits.head_seconds  # a stray byte of a caller that waits for its answer
            else:
                self._counts.slow_requests += 1
                self.transport.close()

    @property
    def untaken_bytes(self) -> int:
        """Bytes of answers that the caller has not taken. A transport of TLS counts only what is not encrypted yet; the
        rest waits in the one below it, which it forgets when it is closed twice (Python 3.11)."""
        tls: Any = getattr(self.transport, "_ssl_protocol", _PLAIN)
        carrier = self.transport if tls is _PLAIN else getattr(tls, "_transport", None)
        return carrier.get_write_buffer_size() if carrier is not None else 0

    def give_up(self) -> None:
        """End the connection, whose caller takes too little."""
        self._counts.slow_readers += 1
        self.transport.abort()

    def make_room(self) -> None:
        """End the connection, so that another caller gets its place."""
        self.transport.abort()

    def cancel(self) -> None:
        """End the work for a caller that has gone."""
        for task in self.tasks:
            task.cancel()


class _Answered:
    """The transport as the answer to one request has it: ``close`` is the end of the answer."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.close = close
        self.write, self.is_closing = transport.write, transport.is_closing


def _uris_of(certificate: dict[str, Any]) -> tuple[str, ...]:
    """The one URI that a certificate is issued for, such as a SPIFFE id. One with several says of nobody who it is
    (X.509-SVID, section 2). It was checked in the handshake."""
    found = tuple(value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI")
    return found if len(found) == 1 else ()


def _without_offer(data: bytes) -> bytes:
    """Take out the offer to go on in another protocol, which some callers make in each request (HTTP/2 in clear text).
    It may be ignored (RFC 9110, 7.8); but the parser would take what follows for that protocol, also a body. An offer
    that comes in two pieces is not found here and makes the request a bad one."""
    if b"pgrade" not in data and b"PGRADE" not in data:
        return data
    head, end, rest = data.partition(b"\r\n\r\n")
    return _OFFER.sub(b"\r\nx-offer:", head) + end + rest


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(_BUSY)).encode()),
        (b"retry-after", b"1"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _BUSY})
