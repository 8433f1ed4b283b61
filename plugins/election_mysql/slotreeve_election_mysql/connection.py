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
from typing import Protocol, TypeVar, cast

from slotreeve.clock import Clock
from slotreeve.errors import ElectionError, RequestTimeout, TransportError

log = logging.getLogger("slotreeve.election.lock")

T = TypeVar("T")
Parameter = str | int | bytes | None
Record = Sequence[object]


class Session(Protocol):
    """An open connection, used from its own thread. Statements are committed one by one unless in a transaction.

    Raises ConnectionLost where the connection, or the server for now, cannot be used, and ElectionError where the
    database refuses; never the driver's own errors.
    """

    def execute(self, statement: str, parameters: Sequence[Parameter] = ()) -> int:
        """Run a statement with ``%s`` for each parameter; how many rows it changed."""

    def query(self, statement: str, parameters: Sequence[Parameter] = ()) -> Sequence[Record]:
        """Run a statement; its rows."""

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """What runs inside is committed at its end, or rolled back by an exception."""

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
    """Connects at the first call and, after an error, at the next one. One call at a time."""

    def __init__(self, name: str, connect: Callable[[], Session], place: str, clock: Clock) -> None:
        """``name`` is the thread's; ``connect`` may block, but for a bounded time; ``place`` is for messages."""
        self._name, self._connect, self.place, self._clock = name, connect, place, clock
        self._worker: _Worker | None = None

    async def run(self, work: Callable[[Session], T], timeout_seconds: float) -> T:
        """Call ``work`` in the thread.

        Raises:
            RequestTimeout: no answer in time; the connection was dropped.
            TransportError, ElectionError: as ``work``, or as connecting.
        """
        if self._worker is None:
            self._worker = _Worker(self._name, self._connect)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def deliver(value: T | None, error: Exception | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast(T, value))

        def give_up() -> None:
            deliver(None, RequestTimeout(f"{self.place}: no answer within {timeout_seconds:g} s; connection dropped"))

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

    def abort(self) -> None:
        """Drop the connection without a message to the server; the next call makes another."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.abort()

    async def close(self, timeout_seconds: float) -> None:
        """End the connection in order, if the server answers."""
        if self._worker is None:
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
