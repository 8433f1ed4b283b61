"""Plugin code held at arm's length: what hangs, crashes or raises costs its own cell and nothing else."""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
LONGEST_MESSAGE = 500
_GRACE_SECONDS = 5
_STATM = Path("/proc/self/statm")


class PluginFailed(Exception):
    """The work did not come to its end; the message is for a person, one line."""


class TimedOut(PluginFailed):
    """The work did not end in time."""


@dataclass(frozen=True)
class CellLimits:
    """What the work of one cell may take.

    Attributes:
        seconds: of real time.
        megabytes: of memory (address space) beyond what the process has at the start of the work; where the system
            does not say how much that is (other systems than Linux), memory is not limited.
    """

    seconds: float = 120.0
    megabytes: int = 1024


def in_child(work: Callable[[], T], limits: CellLimits) -> T:
    """What ``work()`` returns, run in a forked process of its own within ``limits``.

    The process is killed at the end of its time. If this process dies before, the kernel ends one that loops soon after
    its time (``RLIMIT_CPU``). Costs about ten milliseconds. The result must be picklable. What it logs is not shown.

    Raises:
        TimedOut: not within the time.
        PluginFailed: it raised, took too much memory, or its process died; the message holds the reason.
    """
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_work_and_tell, args=(work, limits, sending), daemon=True)
    child.start()
    sending.close()
    try:
        if not receiving.poll(limits.seconds):
            raise TimedOut(f"not done after {limits.seconds:g} s")
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


def _work_and_tell(work: Callable[[], Any], limits: CellLimits, sending: Connection) -> None:
    logging.disable(logging.CRITICAL)
    before = _limit(limits)
    try:
        answer = (True, work())
    except MemoryError:
        answer = (False, f"it took more than {limits.megabytes:,} MB of memory")
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit too
        answer = (False, description_of(error))
    resource.setrlimit(resource.RLIMIT_AS, before)  # the plugin may still hold its memory, and the answer needs some
    sending.send(answer)


def _limit(limits: CellLimits) -> tuple[int, int]:
    """Limit this process; returns the limit of address space that it had."""
    cpu = math.ceil(limits.seconds) + _GRACE_SECONDS + math.ceil(sum(os.times()[:2]))
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    if most == resource.RLIM_INFINITY or cpu < most:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, most))
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(OSError):
        used = int(_STATM.read_text().split()[0]) * resource.getpagesize()
        room = used + limits.megabytes * 1_000_000
        if hard == resource.RLIM_INFINITY or room < hard:
            resource.setrlimit(resource.RLIMIT_AS, (room, hard))
    return soft, hard


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
    text = str(error) if isinstance(error, PluginFailed) else f"{type(error).__name__}: {error}"
    return in_short(text)


def in_short(text: str) -> str:
    """A text of a plugin's as one line that can be written down: some of what Python takes as text is none."""
    return " ".join(text.encode(errors="backslashreplace").decode().split())[:LONGEST_MESSAGE]
