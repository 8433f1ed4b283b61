"""Plugin code held at arm's length: what hangs, crashes or raises costs its own cell and nothing else."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
LONGEST_MESSAGE = 500


class PluginFailed(Exception):
    """The work did not come to its end; the message is for a person, one line."""


class TimedOut(PluginFailed):
    """The work did not end in time."""


def in_child(work: Callable[[], T], seconds: float) -> T:
    """What ``work()`` returns, run in a forked process of its own that is killed after ``seconds``.

    Costs about ten milliseconds. The result must be picklable. What it logs is not shown.

    Raises:
        TimedOut: not within ``seconds``.
        Failed: it raised, or its process died; the message holds the reason.
    """
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_work_and_tell, args=(work, sending), daemon=True)
    child.start()
    sending.close()
    try:
        if not receiving.poll(seconds):
            raise TimedOut(f"not done after {seconds:g} s")
        good, result = receiving.recv()
    except EOFError:
        child.join()
        raise PluginFailed(f"its process died ({_how_it_ended(child.exitcode)})") from None
    finally:
        child.kill()
        child.join()
        receiving.close()
    if not good:
        raise PluginFailed(result)
    value: T = result
    return value


def _work_and_tell(work: Callable[[], Any], sending: Connection) -> None:
    logging.disable(logging.CRITICAL)
    try:
        answer = (True, work())
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit too
        answer = (False, description_of(error))
    sending.send(answer)


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


class _Alarm(BaseException):
    """Not an Exception, so that a plugin's own ``except Exception`` does not swallow it."""


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """End the block after ``seconds`` by a signal, which costs microseconds; for the main thread of a worker.

    Raises:
        TimedOut: the block did not end in time.
    """

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _Alarm

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Alarm:
        raise TimedOut(f"not done after {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def description_of(error: BaseException) -> str:
    """An error as one line."""
    if isinstance(error, PluginFailed):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_MESSAGE]
