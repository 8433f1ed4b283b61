"""A program of somebody else ends when the process that started it does, also by SIGKILL.

A program of ours notices by the end of its standard input. One that does not read it has a second process beside it,
a shell that does.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

SCRIPT = """
read -r line
kill -QUIT "$1"; kill -CONT "$1"
left=100
while kill -0 "$1" && [ $left -gt 0 ]; do sleep 0.1; left=$((left - 1)); done
kill -KILL "$1"
[ -z "$2" ] || rm -rf -- "$2"
"""
"""SIGQUIT is an immediate, complete end for databases, and ends everything else; a program that was stopped has to go
on to see it. SIGKILL after ten seconds."""


class EndWithParent:
    """Ends process ``pid`` and removes ``directory`` once this process has ended; until :meth:`release`.

    Call :meth:`release` before anything waits for the process: the number of one that was waited for is given again.
    """

    def __init__(self, pid: int, directory: Path | None = None) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT, "sh", str(pid), str(directory or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """From now on the process is its starter's to end. May be called again."""
        self._shell.kill()
        self._shell.wait()
        if self._shell.stdin is not None:
            self._shell.stdin.close()
