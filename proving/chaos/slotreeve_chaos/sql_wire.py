"""As much of the protocols of PostgreSQL and MySQL as it takes to tell a client's statements and their answers apart.

No I/O: bytes in, whole messages out. Without TLS, and for a client that sends one statement at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

TOGETHER = ";\n"
"""Between statements that are sent at once."""
# PostgreSQL: types of messages
QUERY, PARSE, BIND, EXECUTE, SYNC = b"Q", b"P", b"B", b"E", b"S"
PASSWORD, TERMINATE = b"p", b"X"
READY = b"Z"
# MySQL: the command, and first bytes of answers
COM_QUERY = 3
OK, EOF, ERROR = 0x00, 0xFE, 0xFF
LONGEST_EOF = 9
MORE_FOLLOWS = 0x0008
"""Flag of a packet that ends the answer to one of several statements."""


@dataclass(frozen=True)
class ClientMessage:
    """What the client sent at once; ``text``: of its statement, None where it is none (a log-in, an end)."""

    data: bytes
    text: str | None = None


@dataclass(frozen=True)
class ServerMessage:
    """A message of the server; ``is_last``: nothing more follows to the present statement."""

    data: bytes
    is_last: bool = False


class Wire(Protocol):
    """One connection's two directions."""

    def requests(self, data: bytes) -> list[ClientMessage]:
        """What is whole now, after these further bytes of the client."""

    def answers(self, data: bytes) -> list[ServerMessage]:
        """What is whole now, after these further bytes of the server."""


class PostgresWire:
    """See :class:`Wire`. A statement is a simple query, or all messages of the extended protocol up to a Sync if they
    execute something; several that are sent so, in a pipeline, are one text."""

    def __init__(self) -> None:
        self._from_client, self._from_server = b"", b""
        self._has_begun = False
        self._unit = b""
        self._text = ""
        self._executed: list[str] = []
        self._prepared: dict[bytes, str] = {}

    def requests(self, data: bytes) -> list[ClientMessage]:
        """See Wire."""
        self._from_client += data
        found: list[ClientMessage] = []
        while (message := self._next_from_client()) is not None:
            if not self._has_begun:
                self._has_begun = True
                found.append(ClientMessage(message))
                continue
            self._unit += message
            kind, body = message[:1], message[5:]
            if kind == QUERY:
                self._text = _text(body.rstrip(b"\0"))
            elif kind == PARSE:
                name, text, _ = body.split(b"\0", 2)
                self._text = self._prepared[name] = _text(text)
            elif kind == BIND:
                self._text = self._prepared[body.split(b"\0", 2)[1]]
            if kind in (QUERY, EXECUTE):
                self._executed.append(self._text)
            if kind in (QUERY, SYNC, PASSWORD, TERMINATE):
                found.append(ClientMessage(self._unit, TOGETHER.join(self._executed) if self._executed else None))
                self._unit, self._text, self._executed = b"", "", []
        return found

    def answers(self, data: bytes) -> list[ServerMessage]:
        """See Wire."""
        self._from_server += data
        found: list[ServerMessage] = []
        while (size := _postgres_size(self._from_server, 1)) is not None:
            message, self._from_server = self._from_server[:size], self._from_server[size:]
            found.append(ServerMessage(message, message[:1] == READY))
        return found

    def _next_from_client(self) -> bytes | None:
        # Only the message that begins a connection has no type.
        size = _postgres_size(self._from_client, 1 if self._has_begun else 0)
        if size is None:
            return None
        message, self._from_client = self._from_client[:size], self._from_client[size:]
        return message


class MySqlWire:
    """See :class:`Wire`. A statement, or several in one text, is a COM_QUERY; a packet with another number than 0
    belongs to the log-in."""

    def __init__(self) -> None:
        self._from_client, self._from_server = b"", b""
        self._is_first = True
        self._ends = 0

    def requests(self, data: bytes) -> list[ClientMessage]:
        """See Wire."""
        self._from_client += data
        found: list[ClientMessage] = []
        while (size := _mysql_size(self._from_client)) is not None:
            packet, self._from_client = self._from_client[:size], self._from_client[size:]
            is_query = packet[3] == 0 and packet[4] == COM_QUERY
            if is_query:
                self._is_first, self._ends = True, 0
            found.append(ClientMessage(packet, _text(packet[5:]) if is_query else None))
        return found

    def answers(self, data: bytes) -> list[ServerMessage]:
        """See Wire."""
        self._from_server += data
        found: list[ServerMessage] = []
        while (size := _mysql_size(self._from_server)) is not None:
            packet, self._from_server = self._from_server[:size], self._from_server[size:]
            found.append(ServerMessage(packet, self._is_last(packet)))
        return found

    def _is_last(self, packet: bytes) -> bool:
        """A statement without rows is answered by one packet. Columns end with an EOF, and so do rows. Either says
        whether the answer to a further statement follows."""
        was_first, self._is_first = self._is_first, False
        kind, length = packet[4], len(packet) - 4
        if kind == ERROR:
            return True
        if was_first and kind == OK:
            return self._ends_one(_status_of_ok(packet[5:]))
        self._ends += kind == EOF and length < LONGEST_EOF
        return self._ends == 2 and self._ends_one(int.from_bytes(packet[7:9], "little"))

    def _ends_one(self, status: int) -> bool:
        self._is_first, self._ends = True, 0
        return not status & MORE_FOLLOWS


WIRES: dict[str, type[PostgresWire | MySqlWire]] = {"postgres": PostgresWire, "mysql": MySqlWire}


def _postgres_size(data: bytes, before: int) -> int | None:
    """Bytes of the first message, whose length comes after so many bytes; None while it is not whole."""
    if len(data) < before + 4:
        return None
    size = before + int.from_bytes(data[before : before + 4])
    return size if len(data) >= size else None


def _mysql_size(data: bytes) -> int | None:
    if len(data) < 4:
        return None
    size = 4 + int.from_bytes(data[:3], "little")
    return size if len(data) >= size else None


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _status_of_ok(body: bytes) -> int:
    """The flags after two numbers of variable length: rows changed, and the last id."""
    start = 0
    for _ in range(2):
        start += {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(body[start], 1)
    return int.from_bytes(body[start : start + 2], "little")
