"""What belongs to a registry in an event loop that it shares with others: its tasks, and what fails in them.

Whatever a registry starts runs in contexts that name it, so its tasks, and what is logged in them, can be told from
those of another registry and of the test.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ClassVar

_current: contextvars.ContextVar[RegistryWatch | None] = contextvars.ContextVar(
    "slotreeve_testing_registry", default=None
)
LOGGERS = ("slotreeve", "uvicorn.error")
"""Where servers, and the HTTP connections of gateways, say what failed."""
AnyCoroutine = Coroutine[Any, Any, Any] | Generator[Any, None, Any]
MakeTask = Callable[..., "asyncio.Future[Any]"]


class RegistryWatch:
    """The tasks and failures of one registry. Make it on a running event loop, and :meth:`close` it.

    Attributes:
        context: what belongs to the registry is started in it.
        failures: what failed since they were taken last.
        has_failed: whether anything has, ever.
    """

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.has_failed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended_badly: list[asyncio.Task[Any]] = []
        self.context = contextvars.copy_context()
        self.context.run(_current.set, self)
        self._factory = _Factory.of(asyncio.get_running_loop())
        self._factory.use()
        _LOG.use()

    def failed(self, error: BaseException) -> None:
        """Something of the registry has failed."""
        self.has_failed = True
        if not any(error is known for known in self.failures):
            self.failures.append(error)

    def add(self, task: asyncio.Task[Any]) -> None:
        """A task of the registry has begun."""
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Many fail on purpose, as an attempt to connect does; asyncio knows whether somebody has looked at the error.
        if not task.cancelled() and getattr(task, "_log_traceback", False):
            self._ended_badly.append(task)

    def take(self) -> list[BaseException]:
        """What has failed since the last call. Call it when all has settled: who waits for a task has had its turn."""
        for task in self._ended_badly:
            if getattr(task, "_log_traceback", False):
                error = task.exception()
                assert error is not None
                self.failed(error)
        self._ended_badly.clear()
        taken, self.failures = self.failures, []
        return taken

    async def end_tasks(self) -> None:
        """Cancel what still runs, until nothing does."""
        while self._tasks:
            tasks = [*self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._tasks.difference_update(tasks)

    def close(self) -> None:
        """RegistryWatch no more."""
        self._factory.release()
        _LOG.leave()


class _Factory:
    """Makes the tasks of one event loop as before, and notes those that belong to a registry."""

    _by_loop: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Factory]] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._users = weakref.ref(loop), 0
        self._before: MakeTask | None = None

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> _Factory:
        """That of a loop."""
        return cls._by_loop.setdefault(loop, cls(loop))

    def use(self) -> None:
        """One registry more."""
        loop = self._loop()
        assert loop is not None
        if self._users == 0:
            self._before = loop.get_task_factory()
            loop.set_task_factory(self.make)
        self._users += 1

    def release(self) -> None:
        """One registry less; after the last one all is as before."""
        self._users -= 1
        loop = self._loop()
        if self._users == 0 and loop is not None and loop.get_task_factory() == self.make:
            loop.set_task_factory(self._before)

    def make(self, loop: asyncio.AbstractEventLoop, coroutine: AnyCoroutine, **how: Any) -> asyncio.Future[Any]:
        """Make a task."""
        make: MakeTask = self._before if self._before is not None else _plain_task
        task = make(loop, coroutine, **how)
        context: contextvars.Context | None = how.get("context")
        watch = _current.get() if context is None else context.get(_current)
        if watch is not None and isinstance(task, asyncio.Task):
            watch.add(task)
        return task


def _plain_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **how: Any) -> asyncio.Task[Any]:
    return asyncio.Task(coroutine, loop=loop, **how)


class _FailureLog(logging.Handler):
    """Hands exceptions that servers log to the registry that they belong to."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._users, self._counting = 0, threading.Lock()

    def use(self) -> None:
        """One registry more."""
        with self._counting:
            self._users += 1
            if self._users == 1:
                for name in LOGGERS:
                    logging.getLogger(name).addHandler(self)

    def leave(self) -> None:
        """One registry less."""
        with self._counting:
            self._users -= 1
            if self._users == 0:
                for name in LOGGERS:
                    logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        watch = _current.get()
        if watch is not None and record.exc_info and record.exc_info[1] is not None:
            watch.failed(record.exc_info[1])


_LOG = _FailureLog()
