"""Several hundred light clients in a process of their own: the death of a session server makes a herd of them.

Run as a module it is that process: it begins the workload, prints ``ready``, waits for a line, ends the workload,
prints what is published, and closes its clients at the end of its input. It writes a history of its own.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path

from slotreeve.errors import ClientError
from slotreeve_client.tools import client_options

from slotreeve_chaos.history import HistoryRecorder
from slotreeve_chaos.workload import ChaosLoad, ChaosWorkload, Expected

HERD_LOAD = ChaosLoad(name="herd", services=60, registrations=900, writers=300, subscribers=0, subscribed=3, rate=10.0)
LOG_LINES = 20
LINE_BYTES = 2**24


class HerdProcess:
    """The handle of the process. Its history is ``herd.jsonl``, its log ``herd.log``, both in ``directory``."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.history = directory / "herd.jsonl"
        self._log, self._seed = directory / "herd.log", seed
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Id of the process; None before it is started."""
        return None if self._process is None else self._process.pid

    async def start(self, cluster: str, sessions: list[str], began: float) -> None:
        """Start it; returns once everything is published and seen. ``began``: see :class:`HistoryRecorder`.

        Raises:
            ClientError: it ended by itself; the message holds the end of its log.
        """
        arguments = [str(self.history), cluster, ",".join(sessions), str(began), str(self._seed)]
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "slotreeve_chaos.herd", *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                limit=LINE_BYTES,
            )
        await self._answer()

    def check(self) -> None:
        """Raise ClientError if the process has ended by itself."""
        assert self._process is not None
        if self._process.returncode is not None:
            lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            raise ClientError("the herd ended by itself:\n" + "\n".join(lines))

    async def end(self) -> Expected:
        """Let it stop publishing and wait until all is acknowledged; returns what is published.

        Raises:
            ClientError: it ended by itself.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(b"end\n")
        expected: Expected = json.loads(await self._answer())
        return expected

    async def close(self) -> None:
        """End the process; nothing happens if it was not started."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(30):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _answer(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            self.check()
        return line


async def _run(history: str, cluster: str, sessions: str, began: str, seed: str) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with HistoryRecorder(Path(history), float(began)) as recorder:
        options = client_options(cluster)
        workload = ChaosWorkload(sessions.split(","), options, recorder, random.Random(int(seed)), HERD_LOAD)
        try:
            await workload.begin()
            print("ready", flush=True)
            if await reader.readline():
                print(json.dumps(await workload.end()), flush=True)
                await reader.read()
        finally:
            await workload.close()


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
