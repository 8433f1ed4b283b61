"""Who listens at a TCP port of this machine, as Linux tells it below /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

PROC = Path("/proc")
LISTENS = "0A"
MOST_WORDS = 4
"""Words of a command that are shown: those behind may be secrets."""


def sockets_at(table: Iterable[str], port: int) -> Iterator[str]:
    """The inodes of sockets that listen at ``port``, from the lines of ``/proc/net/tcp`` or ``tcp6``. Pure."""
    for line in table:
        words = line.split()
        if len(words) > 9 and words[3] == LISTENS and words[1].rpartition(":")[2] == f"{port:04X}":
            yield words[9]


def in_short(command: Sequence[str]) -> str:
    """A command for people: its first words, without the directories of its files. Pure."""
    words = [word.rpartition("/")[2] if word.startswith("/") else word for word in command if word]
    return " ".join(words[:MOST_WORDS])


def holder_of(port: int, proc: Path = PROC) -> str:
    """``process 123 (postgres -D main)``, or empty: nobody listens there, or this account may not see who."""
    inodes: set[str] = set()
    for name in ("tcp", "tcp6"):
        try:
            inodes.update(sockets_at((proc / "net" / name).read_text().splitlines(), port))
        except OSError:
            continue
    if not inodes:
        return ""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in proc.glob("[0-9]*"):
        try:
            if any(os.readlink(file) in wanted for file in (process / "fd").iterdir()):
                command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                return f"process {process.name} ({in_short(command)})"
        except OSError:
            continue
    return ""
