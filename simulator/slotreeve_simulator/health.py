"""Checks of the product's log while a simulation runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from slotreeve_simulator.verdict import RunVerdict

log = logging.getLogger("slotreeve")


class _Listener(logging.Handler):
    """Reports every logged exception as a violation: the product logs only unexpected ones."""

    def __init__(self, verdict: RunVerdict) -> None:
        super().__init__(logging.ERROR)
        self._verdict = verdict

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            self._verdict.violate("health", f"{record.getMessage()}: {type(error).__name__}: {error}")


@contextmanager
def listening(verdict: RunVerdict) -> Iterator[None]:
    """Within this context, an exception that the product logs is a violation, and the log is not printed."""
    before = log.level, log.propagate
    listener = _Listener(verdict)
    log.setLevel(logging.ERROR)
    log.propagate = False
    log.addHandler(listener)
    try:
        yield
    finally:
        log.removeHandler(listener)
        log.setLevel(before[0])
        log.propagate = before[1]
