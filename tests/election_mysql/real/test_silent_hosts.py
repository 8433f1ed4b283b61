"""Hosts of a database that accept a connection and say nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import TransportError
from slotreeve_election_mysql.connection import DatabaseConnection
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import POSTGRES
from slotreeve_election_mysql.timing import connect_seconds


@pytest.fixture
def silent() -> Iterator[list[socket.socket]]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    for listener in listeners:
        listener.setblocking(False)
    yield listeners
    for listener in listeners:
        listener.close()


def were_tried(listeners: list[socket.socket]) -> list[bool]:
    tried = []
    for listener in listeners:
        try:
            with closing(listener.accept()[0]):
                tried.append(True)
        except BlockingIOError:
            tried.append(False)
    return tried


def test_the_second_host_is_tried_before_the_attempt_is_given_up(silent: list[socket.socket]) -> None:
    ports = ",".join(str(listener.getsockname()[1]) for listener in silent)
    dsn = f"postgresql://u@/x?host=127.0.0.1,127.0.0.1&port={ports}"
    seconds = connect_seconds(0.5, POSTGRES.hosts(dsn))

    async def body() -> None:
        connection = DatabaseConnection(
            "t", partial(POSTGRES.connect, dsn, 0.5, 60.0, seconds), "x", LoopClock(), seconds
        )
        with pytest.raises(TransportError):
            await connection.run(lambda session: None, 0.5)
        connection.abort()

    asyncio.run(body())
    assert were_tried(silent) == [True, True]


def test_the_second_address_of_a_host_is_tried_before_the_attempt_is_given_up(
    silent: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = "192.0.2.1"  # for documentation (RFC 5737): no packet comes back, or a refusal at once
    port = silent[0].getsockname()[1]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in (dead, "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_given, **_named: found)
    seconds = connect_seconds(0.5, MYSQL.hosts("mysql://u@db/x"))

    async def body() -> None:
        connect = partial(MYSQL.connect, "mysql://u:p@db/x", 0.5, 60.0, seconds)
        connection = DatabaseConnection("t", connect, "x", LoopClock(), seconds)
        with pytest.raises(TransportError):
            await connection.run(lambda session: None, 0.5)
        connection.abort()

    asyncio.run(body())
    assert were_tried(silent) == [True, False]
