"""The connection to a database where its process has nothing left to make one with."""

from __future__ import annotations

import asyncio
import threading

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import Unreachable
from slotreeve_election_mysql.connection import DatabaseConnection, Session


def fail() -> Session:
    raise OSError(24, "Too many open files")


def test_a_process_without_descriptors_or_threads_cannot_reach_the_database_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        connection = DatabaseConnection("table", fail, "the database", LoopClock(), 1.0)
        for _ in range(2):
            with pytest.raises(Unreachable, match=r"the database: no connection can be used: OSError.*Too many open"):
                await connection.run(lambda session: None, 1.0)

        def refused(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            with pytest.raises(Unreachable, match="can't start new thread"):
                await connection.run(lambda session: None, 1.0)
        with pytest.raises(Unreachable, match="Too many open files"):
            await connection.run(lambda session: None, 1.0)

    asyncio.run(body())
