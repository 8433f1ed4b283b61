"""Which process made a connection, from what Linux shows of sockets and open files in ``/proc``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

TCP_TABLE = Path("/proc/net/tcp")
LOCAL_ADDRESS_COLUMN, INODE_COLUMN = 1, 9
BATCH_SECONDS = 0.05
"""Connections that are made within so long are looked up together: one look takes tens of milliseconds."""

LOOKS = 5
"""The table is read so often at most: Linux may leave connections out of it while others come and go."""
PAUSE_SECONDS = 0.01
"""Between two looks."""


class Diallers:
    """Finds the process that holds the near end of a connection over loopback. Linux only; needs no rights.

    ``pids`` returns the ids of the processes in question by name, those that run now. ``sleep`` is how it waits.
    """

    def __init__(
        self, pids: Callable[[], Mapping[str, int]], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._pids, self._sleep = pids, sleep
        self._ports: set[int] = set()
        self._next: asyncio.Task[dict[int, str]] | None = None

    async def name(self, port: int) -> str | None:
        """The name of the process behind this local port; None if it is another process, or has closed it."""
        self._ports.add(port)
        if self._next is None:
            self._next = asyncio.create_task(self._look())
        return (await self._next).get(port)

    async def _look(self) -> dict[int, str]:
        await self._sleep(BATCH_SECONDS)
        ports, pids = self._ports, self._pids()
        self._ports, self._next = set(), None
        loop, found = asyncio.get_running_loop(), dict[str, int]()
        for _ in range(LOOKS):
            found |= _inodes(await loop.run_in_executor(None, TCP_TABLE.read_text), ports)
            if ports.issubset(found.values()):
                break
            await self._sleep(PAUSE_SECONDS)
        return await loop.run_in_executor(None, _names, found, pids)


def _names(left: dict[str, int], pids: Mapping[str, int]) -> dict[int, str]:
    """The name of the process behind each of these local ports, which are given by the inodes of their sockets; the
    port of another process is left out."""
    names = {}
    for name, pid in pids.items():
        for inode in _sockets(pid) & left.keys():
            names[left.pop(inode)] = name
        if not left:
            break
    return names


def _inodes(table: str, ports: set[int]) -> dict[str, int]:
    """The sockets at these local ports by their inodes, from the text of ``/proc/net/tcp``. A port may have several,
    whose other ends differ."""
    found = {}
    for line in table.splitlines()[1:]:
        columns = line.split(maxsplit=INODE_COLUMN + 1)
        port = int(columns[LOCAL_ADDRESS_COLUMN].rpartition(":")[2], 16)
        if port in ports and columns[INODE_COLUMN] != "0":  # 0: closed, and without a process
            found[columns[INODE_COLUMN]] = port
    return found


def _sockets(pid: int) -> set[str]:
    """The inodes of the sockets that a process holds; none if it has ended."""
    try:
        links = [_target(descriptor) for descriptor in Path(f"/proc/{pid}/fd").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:[")}


def _target(descriptor: Path) -> str:
    try:
        return os.readlink(descriptor)
    except (FileNotFoundError, ProcessLookupError):  # closed since it was listed
        return ""
