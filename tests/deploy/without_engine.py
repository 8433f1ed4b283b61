"""Containers as plain processes: the same commands, variables and files, each in its own mounts, all in one network
namespace in which the names of containers are addresses of loopback. Needs root, no engine and no image."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from slotreeve_harness.end_with_parent import EndWithParent

from tests.faces.programs import skip

PATIENCE = 60.0
STOP_SECONDS = 60.0
LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any:
    fcntl.ioctl(any, 0x8914, struct.pack("16sH22x", b"lo", 0x1 | 0x40))
"""
"""SIOCSIFFLAGS with IFF_UP and IFF_RUNNING."""
SET_UP = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/etc"
mount --rbind /etc "$1/etc"
mount -t tmpfs none /etc
for name in "$1"/etc/*; do
    case "${name##*/}" in hosts | slotreeve) ;; *) ln -s "$name" "/etc/${name##*/}" ;; esac
done
cp "$2" /etc/hosts
mkdir /etc/slotreeve
mount -t tmpfs none /var/lib
mkdir /var/lib/slotreeve
"$3" -c "$4"
echo ready
exec sleep infinity
"""
PATHS = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Container:
    """What an engine is told of one container: its words after the entry point, its variables, and its mounts: files or
    directories of this machine by where they are seen."""

    name: str
    arguments: list[str]
    variables: Mapping[str, str]
    mounts: Mapping[str, Path]
    work_directory: str = "/var/lib/slotreeve"
    of_image: Mapping[str, str] = field(default_factory=dict)

    @property
    def script(self) -> str:
        """What the shell does in the container's own mounts before it becomes the program."""
        lines = ["set -e", "mount -t tmpfs none /etc/slotreeve"]
        for there, here in self.mounts.items():
            place = shlex.quote(there)
            make = f"mkdir -p {place}" if here.is_dir() else f"mkdir -p $(dirname {place}) && touch {place}"
            lines += [make, f"mount --bind {shlex.quote(str(here))} {place}"]
        given = {"PATH": f"{Path(sys.executable).parent}:{PATHS}", **self.of_image, **self.variables}
        pairs = " ".join(f"{name}={shlex.quote(value)}" for name, value in given.items())
        lines += [f"cd {self.work_directory}", f'exec env -i {pairs} "$@"']
        return "\n".join(lines)


class Running:
    """One of these processes. Its output goes to ``log``."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self._guard = EndWithParent(self._process.pid)

    @property
    def pid(self) -> int:
        """Of the program: what sets it up has become it."""
        return self._process.pid

    def said(self) -> str:
        """What it has written."""
        return self._log.read_text(errors="replace")

    def wait_until_it_says(self, text: str) -> None:
        """Wait for a text in its output."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.said():
            assert self._process.poll() is None, self.said()[-3_000:]
            assert time.monotonic() < deadline, self.said()[-3_000:]
            time.sleep(0.05)

    def ask_to_stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end. Returns its exit code."""
        return self._process.wait(STOP_SECONDS)

    def end(self) -> None:
        """SIGKILL, where it still runs."""
        self._guard.release()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class EngineStandIn:
    """A network with names, and containers in it, until the end of the ``with`` block."""

    def __init__(self, names: Sequence[Sequence[str]], directory: Path) -> None:
        """``names``: the names of each container."""
        self._directory = directory
        lines = [f"127.0.1.{number} {' '.join(of_one)}" for number, of_one in enumerate(names, 1)]
        self._hosts = "\n".join(["127.0.0.1 localhost", *lines]) + "\n"
        self._stack = ExitStack()

    def __enter__(self) -> EngineStandIn:
        """Make the network. The test is skipped where this machine cannot."""
        if os.geteuid() != 0 or shutil.which("nsenter") is None or shutil.which("unshare") is None:
            skip("only root, with util-linux, makes namespaces")
        hosts, aside = self._directory / "hosts", self._directory / "aside"
        hosts.write_text(self._hosts, encoding="utf-8")
        aside.mkdir()
        words = [str(aside), str(hosts), sys.executable, LOOPBACK_UP]
        self._holder = Running(
            ["unshare", "--net", "--mount", "sh", "-c", SET_UP, "sh", *words], self._directory / "network.log"
        )
        self._stack.callback(self._holder.end)
        try:
            self._holder.wait_until_it_says("ready")
        except BaseException:
            self._stack.close()
            raise
        return self

    def _command(self, container: Container, arguments: Sequence[str]) -> list[str]:
        pid = str(self._holder.pid)
        inside = ["unshare", "--mount", "sh", "-c", container.script, "sh", *arguments]
        return ["nsenter", "--target", pid, "--net", "--mount", "--", *inside]

    def start(self, container: Container, *, name: str = "") -> Running:
        """Start a container with the image's entry point."""
        log = self._directory / f"{name or container.name}.log"
        running = Running(self._command(container, ["slotreeve", *container.arguments]), log)
        self._stack.callback(running.end)
        return running

    def run(self, container: Container, *arguments: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command in a container like this one, to its end."""
        command = self._command(container, arguments)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)

    def until(self, container: Container, *arguments: str, says: str = "") -> str:
        """Run a command until it succeeds and says this. Returns what it said."""
        deadline = time.monotonic() + PATIENCE
        while (done := self.run(container, *arguments)).returncode or says not in done.stdout:
            assert time.monotonic() < deadline, f"{container.name}: {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything."""
        self._stack.close()
