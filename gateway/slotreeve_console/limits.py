"""What one HTTP listener grants its callers, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HttpLimits:
    """Bounds of one listener. The defaults suit health pages, which a few observers read.

    No time limit applies while an application answers: a long poll or a stream may live for as long as it likes, as
    long as its caller takes what is sent.

    Attributes:
        connections: beyond so many, the one that has waited the longest without a whole request ends in favour of a
            new one, once that is a quarter of a second. Where each has a request, the new one is answered with 503 and
            closed, and beyond some more it is closed at once. Handshakes of TLS, and requests whose caller has gone,
            count.
        head_bytes: largest request line with its headers.
        head_seconds: from the connection, or from the first byte of a further request, until its head is complete.
            The handshake of TLS has as long.
        body_seconds: from the end of the head until the body is complete.
        idle_seconds: how long a connection may be kept without a request, after one was answered.
        write_seconds: how long a caller may leave an answer untaken while the buffer for it (64 KiB) is full, or
            the rest of it when the connection is to end. Work for a caller that has gone has as long to end.
        untaken_bytes: all answers together that their callers have not taken. Beyond that the connections end whose
            callers have taken too little for the longest time.
    """

    connections: int = 64
    head_bytes: int = 16 * 1024
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    idle_seconds: float = 5.0
    write_seconds: float = 10.0
    untaken_bytes: int = 256 * 1024 * 1024


@dataclass
class Counts:
    """What a listener has counted since its start.

    Attributes:
        refused_connections: connections beyond the limit, answered with 503 or closed.
        bad_requests: requests that are not HTTP, or whose head is too large.
        slow_requests: connections ended because no request, or only a part of one, came in time.
        slow_readers: connections ended because the caller did not take what was sent.
        failed_handshakes: connections that did not get through the handshake of TLS.
    """

    refused_connections: int = 0
    bad_requests: int = 0
    slow_requests: int = 0
    slow_readers: int = 0
    failed_handshakes: int = 0
