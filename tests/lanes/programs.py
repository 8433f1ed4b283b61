"""What the tests of a run start: no program in the lane check, and nothing that is still there at the end."""

from __future__ import annotations

import os
import shutil
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import psutil

MARK = "SLOTREEVE_TEST_RUN"
"""A variable of the environment. Whatever a run starts has the run's mark, also if its parent has ended. The mark of a
run within a run begins with that of the outer one."""
END_SECONDS = 20.0
"""Time that a process has to end after the test that has asked it to."""


def is_foreign(command: Sequence[object]) -> bool:
    """Whether this command is another program than this Python with a few lines or a script of a test's own.

    A module (``-m``) is a program: a server, a build, another pytest. What does not exist is none. The standard library
    asks ``uname`` for the kind of processor, once in each process.
    """
    words = [str(word) for word in command]
    found = shutil.which(words[0]) if words else None
    if found is None or words[0] == "uname":
        return False
    return Path(found).resolve() != Path(sys.executable).resolve() or "-m" in words[1:2]


def new_mark() -> str:
    """Mark what this process starts from now on; returns the mark."""
    mark = os.environ[MARK] = f"{os.environ.get(MARK, '')}/{uuid.uuid4().hex}"
    return mark


def of_this_run(mark: str) -> list[psutil.Process]:
    """Processes that have this mark, and do not wait for their parents to look at their ends."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK, "").startswith(mark) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def end_all(mark: str, patience: float) -> list[str]:
    """Wait until nothing of a run is left; end what is, and return its commands."""
    deadline = time.monotonic() + patience
    while left := of_this_run(mark):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    commands = []
    for process in left:
        try:
            commands.append(f"{process.pid}: {' '.join(process.cmdline())[:300]}")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    return commands
