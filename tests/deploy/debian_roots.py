"""Root file systems of Debian for tests, and programs that run in one. Needs root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from slotreeve_harness.end_with_parent import EndWithParent

from tests.faces.programs import skip

SUITE = "bookworm"
STOP_SECONDS = 60.0
OF_PIP = ("PIP_", "SSL_CERT_", "REQUESTS_CA_")
"""Variables that say how this machine reaches an index of packages."""


def debian(archive: Path, packages: Sequence[str]) -> Path:
    """Make the archive of a small Debian with these packages. The test is skipped where this machine cannot."""
    if os.geteuid() != 0:
        skip("only root makes a root file system of Debian")
    if shutil.which("mmdebstrap") is None:
        skip("there is no mmdebstrap: ./run soak installs it")
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", SUITE, str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-3_000:]
    return archive


def unpack(archive: Path, root: Path) -> Path:
    """Unpack such an archive."""
    root.mkdir(parents=True)
    subprocess.run(["tar", "-xf", str(archive), "-C", str(root)], check=True)
    return root


def way_to_packages(root: Path) -> dict[str, str]:
    """Let programs in ``root`` reach the same index of packages as this machine. Returns variables for them."""
    for name in ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"):
        if Path(name).exists():
            place = root / name.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(name, place)
    return {name: value for name, value in os.environ.items() if name.startswith(OF_PIP)}


class Contained:
    """A program in a root directory, as a container engine would run it: its own mounts, the root read-only, one
    directory that it may write, an account without rights, no variables but those given.

    It runs until the end of the ``with`` block, or until it ends; its output goes to ``log``.
    """

    def __init__(
        self, root: Path, command: Sequence[str], account: str, variables: Mapping[str, str], mounts: Mapping[Path, str]
    ) -> None:
        """``mounts``: directories of this machine, by where they are seen; those below ``/var`` may be written."""
        binds = [f"mount --bind '{root}' '{root}'", f"mount -o remount,bind,ro '{root}'"]
        for here, there in mounts.items():
            binds.append(f"mount --bind '{here}' '{root}{there}'")
            may = "rw" if there.startswith("/var") else "ro"
            binds.append(f"mount -o remount,bind,{may} '{root}{there}'")
        binds += [f"mount --bind /dev '{root}/dev'", f"mount -t proc proc '{root}/proc'"]
        script = " && ".join([*binds, f"exec /usr/sbin/chroot --userspec={account} '{root}' \"$@\""])
        self._command = ["unshare", "--mount", "sh", "-c", script, "sh", *command]
        self._variables = dict(variables)

    def run(self, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self._command, env=self._variables, capture_output=True, text=True, check=False, timeout=seconds
        )

    def started(self, log: Path) -> Contained:
        """For a ``with`` block, with the place of its output."""
        self._log = log
        return self

    def __enter__(self) -> Contained:
        """Start it."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, env=self._variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._guard = EndWithParent(self._process.pid)
        return self

    @property
    def pid(self) -> int:
        """Of the program: what sets it up has become it."""
        return self._process.pid

    def stop(self) -> int:
        """SIGTERM, and wait for its end. Returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(STOP_SECONDS)

    def said(self) -> str:
        """The end of its output."""
        return self._log.read_text(errors="replace")[-3_000:]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._guard.release()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
