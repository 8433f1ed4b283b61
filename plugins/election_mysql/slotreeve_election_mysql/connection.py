"""A connection to a database: a driver that blocks, in a thread of its own that can be given up.

A driver cannot be interrupted while it waits for a server that does not answer. So each call has a time limit on
this side: when it runs out, the socket is shut down under the driver and the thread is left to end by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from slotreeve.clock import Clock
from slotreeve.errors import ElectionError, RequestTimeout, SlotreeveError, TransportError, Unreachable

from slotreeve_election_mysql.database_server import DatabaseServer

log = logging.getLogger("slotreeve.election.lock")

T = TypeVar("T")
Parameter = str | int | bytes | None
Record = Sequence[object]


@dataclass(frozen=True)
class SqlStatement:
    """One SQL statement, with ``%s`` for each parameter."""

    text: str
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class SqlResult:
    """What came of one statement: how many rows it changed, or the rows that it returned."""

    changed: int
    rows: Sequence[Record]


class Session(Protocol):
    """An open connection, used from its own thread. Statements are committed one by one unless in a transaction.

    Raises ConnectionLost where the connection, or the server for now, cannot be used, Refused where the server takes
    no writes at present, and ElectionError where it refuses a statement; never the driver's own errors. A transaction
    that was begun is rolled back by an error.

    Attributes:
        server: which database server this is.
    """

    server: DatabaseServer

    def run(self, *statements: SqlStatement) -> Sequence[SqlResult]:
        """Run statements, one after the other, in one round trip."""

    def execute(self, statement: str, parameters: Sequence[Parameter] = ()) -> int:
        """Run one statement; how many rows it changed."""

    def query(self, statement: str, parameters: Sequence[Parameter] = ()) -> Sequence[Record]:
        """Run one statement; its rows."""

    def lock(self, name: str, wait_seconds: float) -> bool:
        """Wait for a named lock, which lasts as long as the connection; False if it was not got in time."""

    def unlock(self, name: str) -> None:
        """Release it."""

    def fileno(self) -> int:
        """The socket."""

    def close(self) -> None:
        """End the connection in order. Never raises; harmless the second time."""


Work = Callable[[Session], object]
Deliver = Callable[[object, Exception | None], object]


class DatabaseConnection:
    """Connects at the first call and, after an error, at the next one. One call at a time.

    Connecting has a time limit of its own: it takes several round trips, a call takes one.
    """

    def __init__(
        self, name: str, connect: Callable[[], Session], place: str, clock: Clock, connect_seconds: float
    ) -> None:
        """``name`` is the thread's; ``connect`` may block, but for a bounded time; ``place`` is for messages."""
        self._name, self._connect, self.place, self._clock = name, connect, place, clock
        self._connect_seconds = connect_seconds
        self._worker: _Worker | None = None
        self._is_connected = False

    async def run(self, work: Callable[[Session], T], timeout_seconds: float) -> T:
        """Call ``work`` in the thread.

        Raises:
            RequestTimeout: no answer in time; the connection was dropped.
            TransportError, ElectionError: as ``work``, or as connecting.
        """
        await self.connect()
        return await self._call(work, timeout_seconds, "answer")

    async def connect(self) -> None:
        """Connect if there is no connection; raises as :meth:`run`."""
        if not self._is_connected:
            await self._call(lambda session: None, self._connect_seconds, "connection")
            self._is_connected = True

    async def _call(self, work: Callable[[Session], T], timeout_seconds: float, what: str) -> T:
        if self._worker is None:
            try:
                self._worker = _Worker(self._name, self._connect)
            except RuntimeError as error:  # this process may start no thread now
                raise self._unusable(error) from None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def deliver(value: T | None, error: Exception | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error if isinstance(error, SlotreeveError) else self._unusable(error))
            else:
                future.set_result(cast(T, value))

        def give_up() -> None:
            deliver(None, RequestTimeout(f"{self.place}: no {what} within {timeout_seconds:g} s; connection dropped"))

        # The answer arrives through the node's clock, as everything else does: a node that is frozen gets none.
        self._worker.put(
            work,
            lambda value, error: loop.call_soon_threadsafe(
                self._clock.call_soon, lambda: deliver(cast(T, value), error)
            ),
        )
        timer = self._clock.call_later(timeout_seconds, give_up)
        try:
            return await future
        except ElectionError:
            raise  # the server has answered: the connection can be used again
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()

    def _unusable(self, error: Exception) -> Unreachable:
        """What stands for an error that is none of the database: this process may have no descriptor or thread left."""
        if not isinstance(error, OSError | RuntimeError):
            log.error("election: a call of the database failed in an unknown way", exc_info=error)
        return Unreachable(f"{self.place}: no connection can be used: {type(error).__name__}: {error}")

    def abort(self) -> None:
        """Drop the connection without a message to the server; the next call makes another."""
        worker, self._worker, self._is_connected = self._worker, None, False
        if worker is not None:
            worker.abort()

    async def close(self, timeout_seconds: float) -> None:
        """End the connection in order, if the server answers."""
        if not self._is_connected:
            self.abort()
            return
        with contextlib.suppress(TransportError):
            await self.run(lambda session: session.close(), timeout_seconds)
        self.abort()


class _Worker:
    """One thread with one connection. A daemon: what hangs in it must not keep the process from ending."""

    def __init__(self, name: str, connect: Callable[[], Session]) -> None:
        self._connect = connect
        self._jobs: queue.SimpleQueue[tuple[Work, Deliver] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._plug: socket.socket | None = None
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def put(self, work: Work, deliver: Deliver) -> None:
        self._jobs.put((work, deliver))

    def abort(self) -> None:
        with self._lock:
            self._is_abandoned = True
            if self._plug is not None:
                with contextlib.suppress(OSError):  # ended by the other side already
                    self._plug.shutdown(socket.SHUT_RDWR)
        self._jobs.put(None)

    def _run(self) -> None:
        session: Session | None = None
        while (job := self._jobs.get()) is not None:
            work, deliver = job
            value, error = None, None
            try:
                if session is None:
                    session = self._connect()
                    self._keep_plug(session)
                value = work(session)
            except Exception as raised:  # noqa: BLE001 - the caller gets it
                error = raised
            try:
                deliver(value, error)
            except RuntimeError:
                log.debug("an answer of the database came after the event loop was closed")
        if session is not None:
            session.close()
        with self._lock:
            if self._plug is not None:
                self._plug.close()
                self._plug = None

    def _keep_plug(self, session: Session) -> None:
        """A descriptor of our own for the socket: the driver's may be closed, and reused, when it is needed."""
        plug = socket.socket(fileno=os.dup(session.fileno()))
        with self._lock:
            self._plug = plug
            if self._is_abandoned:
                raise RequestTimeout("connected too late")
