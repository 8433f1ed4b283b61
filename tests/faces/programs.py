"""Programs of others that discover through a gateway: Prometheus, HAProxy, unbound, dig.

``./run test`` and ``./run soak`` get them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import pytest
from slotreeve_harness.end_with_parent import EndWithParent

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / ".venv" / "programs"
NODE_MODULES = ROOT / ".venv" / "node" / "node_modules"
PYTHON_CONSUL2 = ROOT / ".venv" / "python-consul2"
STOP_SECONDS = 10.0


def program(name: str) -> str:
    """Path of a program. Without it the test is skipped, or fails where CI=true."""
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *_folders("usr/bin", "usr/sbin")]))
    if found is None or (name == "node" and not NODE_MODULES.exists()):
        skip(f"there is no {name}, or not what it needs: ./run test gets both below .venv")
    return found


def skip(reason: str) -> NoReturn:
    """Skip the test, or fail it where CI=true: all that it needs is there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _folders(*names: str) -> list[str]:
    return [str(UNPACKED / name) for name in names]


def environment() -> Mapping[str, str]:
    """What such a program is started with: it finds the libraries that were unpacked with it."""
    libraries = os.pathsep.join(str(path) for path in UNPACKED.glob("usr/lib/*-linux-*"))
    return {**os.environ, "LD_LIBRARY_PATH": libraries}


class Program:
    """A program that runs until the end of the ``with`` block. Its output goes to ``log``."""

    def __init__(self, command: list[str], log: Path, variables: Mapping[str, str] | None = None) -> None:
        self._command, self._log = [program(command[0]), *command[1:]], log
        given = os.environ if command[0] == sys.executable else environment()  # this Python has its own libraries
        self._environment = {**given, **(variables or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def said(self) -> str:
        """The end of what it has written so far."""
        return self._log.read_text(errors="replace")[-2_000:] if self._log.exists() else ""

    def __enter__(self) -> Program:
        """Start it."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment
            )
        self._guard = EndWithParent(self._process.pid)
        return self

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        assert self._process is not None
        self._guard.release()
        self._process.kill()
        self._process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        assert self._process is not None
        self._guard.release()
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def haproxy(directory: Path, address: str, targets: list[str]) -> Program:
    """HAProxy at ``address`` in front of several gateways: a request that meets a dead one goes to another."""
    servers = "\n".join(
        f"  server gateway-{number} {target} check inter 100ms fall 1 rise 1" for number, target in enumerate(targets)
    )
    (directory / "haproxy.cfg").write_text(
        f"""defaults
  mode http
  timeout connect 1s
  timeout client 15m
  timeout server 15m
  retries 5
  option redispatch 1
  retry-on all-retryable-errors
frontend here
  bind {address}
  default_backend gateways
backend gateways
{servers}
"""
    )
    return Program(["haproxy", "-f", str(directory / "haproxy.cfg")], directory / "haproxy.log")
