"""A clock of a database server that a test sets on and back: the server runs with ``libfaketime``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slotreeve_chaos.sql_programs import servers_directory, unpacked_packages

FOLDERS = "usr/lib/*/faketime"
LIBRARY = "libfaketimeMT.so.1"
MISSING = "no libfaketime: install Debian's package libfaketime"


class ShiftedClock:
    """How far the wall clock of a server is off. Its monotonic clock, and the clocks of all others, are right."""

    def __init__(self, directory: Path) -> None:
        """``directory``: an existing one, which the server's user may read."""
        self._file = directory / "clock"
        self.set(0.0)
        self._file.chmod(0o644)

    def set(self, seconds: float) -> None:
        """Let the clock be ahead by so many seconds, or behind by a negative number, from now on."""
        self._file.write_text(f"{seconds:+f}\n")

    def environment(self) -> Mapping[str, str]:
        """What the server needs in its environment.

        Raises:
            ServerMissing: libfaketime is not here and could not be fetched.
        """
        return {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }


def _library() -> Path:
    installed = sorted(Path("/").glob(f"{FOLDERS}/{LIBRARY}"))
    if installed:
        return installed[0]
    tree = unpacked_packages(servers_directory() / "faketime", ("libfaketime",), MISSING)
    return next(tree.glob(f"{FOLDERS}/{LIBRARY}"))
