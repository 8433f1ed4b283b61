"""A connection is attributed to the process that made it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from slotreeve_chaos.diallers import TCP_TABLE, Diallers, _inodes

DIAL = "import socket, sys\nkept = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\nsys.stdin.read()"
NO_PROCESS = 2**22 + 1
"""Linux gives no process a number above 2**22."""


@contextmanager
def dialling(port: int) -> Iterator[int]:
    """A process that connects to the port and stays; gives its id."""
    process = subprocess.Popen([sys.executable, "-c", DIAL, str(port)], stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        process.communicate()


def names_of_two(*known: str) -> list[str | None]:
    """Two processes, ``first`` and ``second``, connect one after the other: the names that their ports are given, where
    only the processes in ``known`` are looked at."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        ports, pids = [], {"ended": NO_PROCESS, "this": os.getpid()}
        for name in ("first", "second"):
            pids[name] = stack.enter_context(dialling(server.getsockname()[1]))
            accepted, (_, port) = server.accept()
            stack.enter_context(accepted)
            ports.append(port)
        diallers = Diallers(lambda: {name: pids[name] for name in known})

        async def look() -> list[str | None]:
            return await asyncio.gather(*(diallers.name(port) for port in ports))

        return asyncio.run(look())


def test_each_connection_has_the_name_of_the_process_that_made_it() -> None:
    assert names_of_two("ended", "this", "second", "first") == ["first", "second"]


def test_a_connection_of_another_process_has_no_name() -> None:
    assert names_of_two("ended", "this", "second") == [None, "second"]
    assert names_of_two("this") == [None, None]


def test_a_port_with_two_connections_is_that_of_both_processes() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.socket() as first,
        socket.socket() as second,
    ):
        for each in (first, second):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        first.bind(("127.0.0.1", 0))
        second.bind(first.getsockname())
        first.connect(one.getsockname())
        second.connect(other.getsockname())

        async def look() -> str | None:
            return await Diallers(lambda: {"this": os.getpid()}).name(first.getsockname()[1])

        assert asyncio.run(look()) == "this"
        assert len(_inodes(TCP_TABLE.read_text(), {first.getsockname()[1]})) == 2
