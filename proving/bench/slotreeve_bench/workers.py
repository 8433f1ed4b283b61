"""Processes that take part in a measurement: they read commands, one a line, and answer each with one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from slotreeve.errors import ClientError, RequestTimeout
from slotreeve_harness.processes import LocalCluster

LONGEST_LINE_BYTES = 1 << 24


class Worker:
    """One process that runs a module of the benchmark. :meth:`stop` it."""

    def __init__(self, process: asyncio.subprocess.Process, what: str) -> None:
        self._process, self._what = process, what

    @classmethod
    async def start(cls, cluster: LocalCluster, module: str, *arguments: str) -> Worker:
        """Start ``python -m module cluster-name arguments``; returns at once."""
        command = (sys.executable, "-m", module, cluster.name, *arguments)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=LONGEST_LINE_BYTES)
        return cls(process, f"{module} {arguments[0] if arguments else ''}".strip())

    def tell(self, command: str) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())

    async def answer(self, seconds: float) -> Any:
        """The next answer, decoded.

        Raises:
            RequestTimeout: it does not come within ``seconds``.
            ClientError: the process has ended.
        """
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise RequestTimeout(f"{self._what} did not answer within {seconds:g} s") from None
        if not line:
            raise ClientError(f"{self._what} ended early")
        return json.loads(line)

    async def ask(self, command: str, seconds: float) -> Any:
        """:meth:`tell`, then :meth:`answer`."""
        self.tell(command)
        return await self.answer(seconds)

    async def stop(self) -> None:
        """Kill the process, if it still runs, and wait for its end."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


class Commands:
    """The other end, in the process: reads commands without holding up the event loop."""

    async def next(self) -> str:
        """The next command; empty when there will be no more."""
        line: str = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        return line.strip()

    @staticmethod
    def answer(content: object) -> None:
        """Answer a command."""
        print(json.dumps(content), flush=True)
