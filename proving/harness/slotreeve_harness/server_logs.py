"""What the log of a server process says about its health."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

TRACEBACK = "Traceback (most recent call last)"


def raised(log: Path) -> list[str]:
    """The exceptions in a log, a sentence for each. A server logs an exception only where it did not expect it: one in
    a handler, in a timer, or one that ended the process. The log has ``log.format = "json"``."""
    if not log.exists():
        return []
    with log.open(encoding="utf-8", errors="replace") as lines:
        return list(_exceptions(lines))


def _exceptions(lines: Iterable[str]) -> Iterator[str]:
    """A record has its traceback in one line. What the interpreter prints has several; the first one after them that is
    not indented names the exception."""
    is_open = False
    for line in lines:
        if TRACEBACK in line:
            is_open = not line.startswith("{")
            if not is_open:
                yield _of_a_record(line)
        elif is_open and line.strip() and not line[0].isspace():
            is_open = False
            yield line.strip()
    if is_open:
        yield TRACEBACK


def _of_a_record(line: str) -> str:
    try:
        record = json.loads(line)
        return f"{record['event']}: {record['exception'].strip().splitlines()[-1]}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return line.strip()[:500]
