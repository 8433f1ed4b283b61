"""A client in a process of its own that publishes all the time, and measures how long each acknowledgement takes. It
shows what something else does to clients that it does not concern."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

from slotreeve_client.tools import open_client
from slotreeve_harness.processes import LocalCluster

from slotreeve_bench.workers import Commands, Worker

BETWEEN_PUBLISHES_SECONDS = 0.005
ANSWER_SECONDS = 120.0


class Bystander:
    """The process. :meth:`stop` it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @classmethod
    async def start(cls, cluster: LocalCluster, sessions: Sequence[str]) -> Bystander:
        """Returns once it is connected to one of these session servers and has published."""
        bystander = cls(await Worker.start(cluster, "slotreeve_bench.bystander", *sessions))
        await bystander.take()
        return bystander

    async def take(self) -> list[float]:
        """How many milliseconds each publish took since the last time."""
        waits_ms: list[float] = await self._worker.ask("take", ANSWER_SECONDS)
        return waits_ms

    async def stop(self) -> None:
        """End the process."""
        await self._worker.stop()


async def publish_all_the_time(cluster: str, addresses: list[str]) -> None:
    """The process: at each command it answers how long its publishes took since the last one."""
    waits_ms: list[float] = []
    commands = Commands()
    async with open_client(addresses, cluster) as client:
        publication = client.publish("bench.bystander", "0")
        await publication.acknowledged()
        asked = asyncio.create_task(commands.next())
        while True:
            began = time.perf_counter()
            publication.republish(str(began))
            await publication.acknowledged()
            waits_ms.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(BETWEEN_PUBLISHES_SECONDS)
            if asked.done():
                if not asked.result():
                    return
                commands.answer(waits_ms)
                waits_ms.clear()
                asked = asyncio.create_task(commands.next())


if __name__ == "__main__":
    from slotreeve_client.tools import run_async

    run_async(publish_all_the_time(sys.argv[1], sys.argv[2:]))
