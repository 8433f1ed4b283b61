"""What the REST face of one gateway does a second, and how soon subscribers are told, as JSON.

``python proving/benchmarks/gateway.py [--runs 5] [--profile FILE]``

Three processes: ``slotreeve dev``, one ``slotreeve gateway run``, and this one, which speaks HTTP over keep-alive
connections with as little work as possible (one request at a time on each connection).

* ``registrations``, ``renewals``: of single leases, a second.
* ``bulk_registrations``: leases a second, so many in one request.
* ``lookups``: of services with a few instances each, a second.
* ``told_ms``: milliseconds from sending a registration to the callback of a subscriber that uses the SDK, each time in
  a service that was quiet. ``answered_ms``: until the answer to the registration.

``gateway_cpu_us`` is the processor time of the gateway for each of them: where other work takes processors away, or two
do not suffice for three processes, a million divided by it is what the gateway itself could do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slotreeve_client import Subscription, connect
from slotreeve_harness.figures import percentile
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer

CONNECTIONS, SECONDS = 32, 3.0
SERVICES, INSTANCES = 100, 10
BULK = 500
QUIET_SERVICES, TOLD = 50, 400
Figures = dict[str, float]


class Caller(asyncio.Protocol):
    """One connection. It sends the next request when the answer to the last one has come."""

    def __init__(self, next_request: Callable[[], bytes | None], answered: Callable[[], None]) -> None:
        self._next, self._answered = next_request, answered
        self._got = bytearray()
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        request = self._next()
        if request is not None:
            self._transport.write(request)
        elif not self.ended.done():
            self.ended.set_result(None)

    def data_received(self, data: bytes) -> None:
        got = self._got
        got += data
        end = got.find(b"\r\n\r\n")
        if end < 0:
            return
        length = got.find(b"content-length: ", 0, end)
        body = int(got[length + 16 : got.find(b"\r", length)]) if length >= 0 else 0
        if len(got) < end + 4 + body:
            return
        if got[9:10] != b"2":
            self.ended.set_exception(RuntimeError(got.decode(errors="replace")))
            return
        got.clear()
        self._answered()
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(ConnectionError(f"the gateway has closed the connection: {exc}"))


def request(method: str, path: str, body: object = None) -> bytes:
    """An HTTP request."""
    text = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


def instance(service: int, number: int) -> dict[str, object]:
    return {
        "address": f"10.0.{service}.{number % 250}",
        "port": 1024 + number // 250,
        "scheme": "http",
        "tags": ["blue", "v2"],
        "metadata": {"version": "1.2.3"},
        "ttl_seconds": 600,
    }


class Bench:
    """A gateway that is measured."""

    def __init__(self, address: str, pid: int, runs: int) -> None:
        self._host, _, port = address.rpartition(":")
        self._port, self._stat, self._runs = int(port), Path(f"/proc/{pid}/stat"), runs

    async def rate(self, requests: Iterator[bytes], things: int = 1, connections: int = CONNECTIONS) -> object:
        """Things a second, with so many in each request, and the gateway's processor time for each."""
        rates, costs = [], []
        for _ in range(self._runs + 1):
            count, seconds, cpu = await self._run(requests, connections)
            rates.append(things * count / seconds)
            costs.append(1e6 * cpu / (things * count))
        # The first run warms up.
        return {"per_second": figures(rates[1:]), "gateway_cpu_us": figures(costs[1:])}

    async def _run(self, requests: Iterator[bytes], connections: int) -> tuple[int, float, float]:
        count = 0

        def answered() -> None:
            nonlocal count
            count += 1

        end = time.perf_counter() + SECONDS
        loop = asyncio.get_running_loop()
        cpu, began = self._cpu(), time.perf_counter()
        callers = []
        for _ in range(connections):
            transport, caller = await loop.create_connection(
                lambda: Caller(lambda: next(requests) if time.perf_counter() < end else None, answered),
                self._host,
                self._port,
            )
            callers.append((transport, caller))
        for _, caller in callers:
            await caller.ended
        took, spent = time.perf_counter() - began, self._cpu() - cpu
        for transport, _ in callers:
            transport.close()
        return count, took, spent

    def _cpu(self) -> float:
        """Seconds of processor time that the gateway has used."""
        user, system = self._stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    async def told(self, session: str) -> object:
        """How soon a subscriber is told of a registration."""
        told, answers = [], []
        loop = asyncio.get_running_loop()
        async with connect(session) as client:
            seen: asyncio.Future[float] = loop.create_future()

            def changed(subscription: Subscription) -> None:
                if subscription.count and not seen.done():
                    seen.set_result(time.perf_counter())

            for n in range(QUIET_SERVICES):
                await client.subscribe(f"com.example.Quiet{n}", changed).ready()
            sent: list[bytes] = []
            moments: list[float] = []
            answered = asyncio.Event()

            def done() -> None:
                moments.append(time.perf_counter())
                answered.set()

            transport, _ = await loop.create_connection(
                lambda: Caller(lambda: sent.pop() if sent else None, done), self._host, self._port
            )
            for n in range(TOLD):
                seen = loop.create_future()
                answered.clear()
                path = f"/v1/services/com.example.Quiet{n % QUIET_SERVICES}/instances/{n}"
                began = time.perf_counter()
                transport.write(request("PUT", path, instance(0, n)))
                told.append(1000 * (await seen - began))
                await answered.wait()
                answers.append(1000 * (moments.pop() - began))
                await asyncio.sleep(0.02)
            transport.close()
        return {"told_ms": figures(told), "answered_ms": figures(answers)}


def figures(values: list[float]) -> Figures:
    """Percentiles, rounded."""
    named = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(percentile(values, share), 2) for name, share in named.items()}


def registrations(method: str = "PUT", below: str = "") -> Iterator[bytes]:
    """Single requests for the leases of all services, in turn, without end."""
    made = [
        request(
            method,
            f"/v1/services/com.example.S{service}/instances/i-{number}{below}",
            None if below else instance(service, number),
        )
        for number in range(INSTANCES)
        for service in range(SERVICES)
    ]
    while True:
        yield from made


def bulks() -> Iterator[bytes]:
    """Requests for many leases each."""
    made = []
    for part in range(8):
        many = [
            {"service": f"com.example.B{n % SERVICES}", "id": f"b-{part}-{n}"} | instance(n % SERVICES, n)
            for n in range(BULK)
        ]
        made.append(request("POST", "/v1/bulk/register", {"registrations": many}))
    while True:
        yield from made


def lookups() -> Iterator[bytes]:
    made = [request("GET", f"/v1/services/com.example.S{n}/instances") for n in range(SERVICES)]
    while True:
        yield from made


async def measure(address: str, pid: int, session: str, runs: int) -> dict[str, object]:
    bench = Bench(address, pid, runs)
    return {
        "told": await bench.told(session),
        "registrations": await bench.rate(registrations()),
        "renewals": await bench.rate(registrations("PUT", "/renewal")),
        "lookups": await bench.rate(lookups()),
        "bulk_registrations": await bench.rate(bulks(), BULK, 4),
    }


@contextmanager
def gateway(dev: DevServer, profile: Path | None) -> Iterator[tuple[str, int]]:
    """A gateway process. ``profile``: where it leaves the figures of cProfile."""
    listen = free_address()
    flags = {"gateway.sessions": dev.session_address, "gateway.listen": listen, "cluster.meta.meta-1": dev.meta_address}
    flags["face.use"] = "rest"
    settings = [part for key, value in flags.items() for part in ("--set", f"{key}={value}")]
    profiler = ["-m", "cProfile", "-o", str(profile)] if profile else []
    command = [sys.executable, *profiler, "-m", "slotreeve_cli", "gateway", "run", "--until-eof", *settings]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert "listens" in process.stdout.readline()
    try:
        yield listen, process.pid
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="What the REST face of a gateway does a second.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", type=Path, help="write cProfile's figures of the gateway there")
    arguments = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    with DevServer() as dev, gateway(dev, arguments.profile) as (address, pid):
        results = asyncio.run(measure(address, pid, dev.session_address, arguments.runs))
    parameters = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_before": load,
        "connections": CONNECTIONS,
        "seconds": SECONDS,
        "runs": arguments.runs,
        "services": SERVICES,
        "instances_of_each": INSTANCES,
        "leases_in_a_bulk": BULK,
        "quiet_services": QUIET_SERVICES,
        "told": TOLD,
    }
    print(json.dumps({"parameters": parameters, "results": results}, indent=1))


if __name__ == "__main__":
    main()
