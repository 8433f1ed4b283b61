"""Checks of the product's log while a simulation runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from slotreeve_simulator.verdict import RunVerdict

LOGS = tuple(map(logging.getLogger, ("slotreeve", "asyncio")))
"""The product's own, and that of the event loop: it has what a timer or a task raised and nobody caught."""


ARRANGER = "slotreeve.arranger"
"""Its errors say that an assigner or a balancer broke the rules of its port. Otherwise nothing would show that here,
because the meta leader keeps the table."""


class _Listener(logging.Handler):
    """Reports every logged exception as a violation, because the product logs only unexpected ones, and every error of
    a plugin."""

    def __init__(self, verdict: RunVerdict) -> None:
        super().__init__(logging.ERROR)
        self._verdict = verdict

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            self._verdict.violate("health", f"{record.getMessage()}: {type(error).__name__}: {error}")
        elif record.name == ARRANGER:
            self._verdict.violate("health", record.getMessage())


@contextmanager
def listening(verdict: RunVerdict) -> Iterator[None]:
    """Within this context, an exception or a plugin's error that is logged is a violation. The logs are not printed."""
    before = [(log.level, log.propagate) for log in LOGS]
    listener = _Listener(verdict)
    for log in LOGS:
        log.setLevel(logging.ERROR)
        log.propagate = False
        log.addHandler(listener)
    try:
        yield
    finally:
        for log, (level, propagates) in zip(LOGS, before, strict=True):
            log.removeHandler(listener)
            log.setLevel(level)
            log.propagate = propagates
