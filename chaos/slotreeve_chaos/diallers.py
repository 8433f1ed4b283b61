"""Which process made a connection, from what Linux shows of sockets and open files in ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

TCP_TABLE = Path("/proc/net/tcp")
PROCESSES = Path("/proc")
LOCAL_ADDRESS_COLUMN, INODE_COLUMN = 1, 9


class Diallers:
    """Finds the process that holds the near end of a connection over loopback. Linux only; needs no rights.

    ``pids`` returns the ids of the processes in question by name, those that run now.
    """

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids

    def names(self, ports: set[int]) -> dict[int, str]:
        """The name of the process behind each of these local ports; a port of another process is left out."""
        inodes = _inodes(TCP_TABLE.read_text(), ports)
        owners = {inode: name for name, pid in self._pids().items() for inode in _sockets(pid)}
        return {port: owners[inode] for port, inode in inodes.items() if inode in owners}


def _inodes(table: str, ports: set[int]) -> dict[int, str]:
    """The inode of the socket at each local port, from the text of ``/proc/net/tcp``."""
    found = {}
    for line in table.splitlines()[1:]:
        columns = line.split()
        port = int(columns[LOCAL_ADDRESS_COLUMN].rpartition(":")[2], 16)
        if port in ports and columns[INODE_COLUMN] != "0":  # without a process: closed, and not yet forgotten
            found[port] = columns[INODE_COLUMN]
    return found


def _sockets(pid: int) -> set[str]:
    """The inodes of the sockets that a process holds; none if it has ended."""
    found = set()
    try:
        for descriptor in (PROCESSES / str(pid) / "fd").iterdir():
            target = _target(descriptor)
            if target.startswith("socket:["):
                found.add(target.removeprefix("socket:[").removesuffix("]"))
    except FileNotFoundError:
        return set()
    return found


def _target(descriptor: Path) -> str:
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:  # closed since it was listed
        return ""
