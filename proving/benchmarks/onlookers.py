"""What it costs a cluster to be looked on. Prints one JSON object.

Example: ``PYTHONPATH=. python proving/benchmarks/onlookers.py``

Two clusters of processes run side by side. One keeps a history, has a gateway with ``--consoles`` open pages of the
console, and the metrics of each of its servers are read once a second. The other one has none of that. Acknowledged
changes a second, one client, pipelined, are measured on one and the other in turn; the pages are open and the metrics
read only while the first one is measured, because both clusters share the processors. The ratio is that of each pair.
Gateway, pages and readers run on the same processors, too: in earnest they would be on other machines.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from slotreeve_client.tools import run_async
from slotreeve_harness.processes import LocalCluster

from proving.benchmarks.events import interval, processor_seconds, publishing, republish

PAGES = ("first", "services", "servers", "slots", "history")
"""The pages of the console that follow the cluster, one after the other for each onlooker."""
SCRAPE_SECONDS = 1.0
SETTLED_SECONDS = 4.0
"""Pages that were just opened ask more than those that only follow."""
ROUNDS = 4
"""So many times each client changes all that it has published, one after the other."""
QUIET = {"history.enabled": False, "face.use": "rest"}
WATCHED = {"history.enabled": True, "face.use": "rest,console", "http.enabled": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publishers", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--consoles", type=int, default=10)
    parser.add_argument("--look", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.look:
        asyncio.run(look_on(given.look[0], given.look[1:], given.consoles))
        return
    with tempfile.TemporaryDirectory(prefix="slotreeve-bench-") as directory:
        figures = run_async(measure(Path(directory), given.publishers, given.pairs, given.consoles))
    machine = {"processors": os.cpu_count(), "python": platform.python_version(), "load_before": os.getloadavg()}
    print(json.dumps({"machine": machine, **figures}, indent=1))


async def measure(directory: Path, publishers: int, pairs: int, consoles: int) -> dict[str, object]:
    async with (
        publishing(directory / "watched", WATCHED, publishers, 1) as (watched, watched_cluster),
        publishing(directory / "quiet", QUIET, publishers, 0) as (quiet, quiet_cluster),
        onlookers(watched_cluster, consoles) as crowd,
    ):
        rates: list[tuple[float, float]] = []
        spent = [0.0, 0.0]
        for turn in range(pairs + 1):
            rate: dict[bool, float] = {}
            for is_watched in (True, False) if turn % 2 else (False, True):
                cluster = watched_cluster if is_watched else quiet_cluster
                if is_watched:
                    await crowd.come()
                await asyncio.sleep(SETTLED_SECONDS)
                before = processor_seconds(cluster)
                client = watched if is_watched else quiet
                rates_of_rounds = [await republish(*client, ROUNDS * turn + number) for number in range(ROUNDS)]
                rate[is_watched] = statistics.harmonic_mean(rates_of_rounds)
                spent[not is_watched] += processor_seconds(cluster) - before
                if is_watched:
                    await crowd.go()
            rates.append((rate[True], rate[False]))
    del rates[0]  # the warm-up
    ratios = [with_them / without for with_them, without in rates]
    return {
        "publishers": publishers,
        "pairs": pairs,
        "consoles": consoles,
        "events_read": crowd.events,
        "metrics_read": crowd.scrapes,
        "changes_per_second_without": round(statistics.median(without for _, without in rates)),
        "changes_per_second_with": round(statistics.median(with_them for with_them, _ in rates)),
        "ratio": round(statistics.median(ratios), 4),
        "ratio_95": interval(ratios),
        "processor_microseconds_per_change_with": round(1e6 * spent[0] / publishers / ROUNDS / (pairs + 1), 2),
        "processor_microseconds_per_change_without": round(1e6 * spent[1] / publishers / ROUNDS / (pairs + 1), 2),
    }


class Crowd:
    """The process that has the pages open and reads the metrics. ``events``, ``scrapes``: how many it has read."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.events = self.scrapes = 0

    async def come(self) -> None:
        """Open all pages, and wait until each has shown its state."""
        await self._ask("come")

    async def go(self) -> None:
        """Close them."""
        told = await self._ask("go")
        self.events, self.scrapes = told["events"], told["scrapes"]

    async def _ask(self, what: str) -> dict[str, int]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{what}\n".encode())
        async with asyncio.timeout(60):
            told: dict[str, int] = json.loads(await stdout.readline())
        return told


@contextlib.asynccontextmanager
async def onlookers(cluster: LocalCluster, consoles: int) -> AsyncIterator[Crowd]:
    """The crowd of a cluster, in a process of its own."""
    gateway = cluster.gateway_addresses[0]
    servers = [_next_port(server.address) for server in cluster.servers.values()]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--consoles", str(consoles), "--look", gateway, *servers),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Crowd(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def _next_port(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + 1}"


# --- in the process of the crowd --------------------------------------------------------------------------------------


async def look_on(gateway: str, servers: Sequence[str], consoles: int) -> None:
    """Come and go as standard input says, until it ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    told = {"events": 0, "scrapes": 0}
    tasks: list[asyncio.Task[None]] = []
    while line := (await reader.readline()).decode().strip():
        if line == "come":
            shown = [asyncio.Event() for _ in range(consoles)]
            for number, event in enumerate(shown):
                page = PAGES[number % len(PAGES)]
                tasks.append(asyncio.create_task(follow(gateway, page, event, told)))
            tasks.append(asyncio.create_task(scrape(servers, told)))
            while not all(event.is_set() for event in shown):
                done, _ = await asyncio.wait(tasks, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        else:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended
            tasks.clear()
        print(json.dumps(told), flush=True)


async def follow(gateway: str, page: str, shown: asyncio.Event, told: dict[str, int]) -> None:
    """Follow one page of the console, as its script does."""
    host, _, port = gateway.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=64 << 20)
    try:
        request = f"GET /ui/events?page={page} HTTP/1.1\r\nHost: {gateway}\r\nAccept: text/event-stream\r\n\r\n"
        writer.write(request.encode())
        status = (await reader.readline()).decode()
        if " 200 " not in status:
            raise RuntimeError(f"the page {page} of {gateway} is not sent: {status.strip()}")
        while line := await reader.readline():
            if line.startswith(b"data:"):
                told["events"] += 1
                shown.set()
    finally:
        writer.close()


async def scrape(servers: Sequence[str], told: dict[str, int]) -> None:
    """Read the metrics of each server once a second."""
    while True:
        for server in servers:
            host, _, port = server.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET /metrics HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            if b" 200 " not in answer.split(b"\r\n", 1)[0]:
                raise RuntimeError(f"{server} tells no metrics: {answer[:80]!r}")
            told["scrapes"] += 1
        await asyncio.sleep(SCRAPE_SECONDS)


if __name__ == "__main__":
    main()
