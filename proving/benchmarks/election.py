"""How long the fle election takes to replace a leader, and how fast its meta state is written; on real processes.

    python proving/benchmarks/election.py --nodes 3 5 --rounds 10

Every node is a process of its own with ZeroMQ on loopback and a data directory on disk. A fail-over is measured from
just before the signal to the leader until another node has had its first write acknowledged. Prints one JSON object,
with a result for each number of nodes and the targets: killed, a median of at most 100 ms; frozen, at most three ping
intervals more than that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import slotreeve_election_fle
import slotreeve_transport_zmq
from slotreeve.clock import MachineClock
from slotreeve.errors import ElectionError
from slotreeve.ports import Context, Leadership
from slotreeve_machines.storage import DirectoryStorage

PATIENCE_SECONDS = 20.0
SETTLE_SECONDS = 0.5
TARGET_MS = 100.0
"""Of the median fail-over after a kill; after a freeze three ping intervals are added."""

# --- one node, in a process of its own -------------------------------------------------------------------------------


def run_node(name: str, members: dict[str, str], options: dict[str, Any]) -> None:
    asyncio.run(_Node(name, members, options).run())


class _Node:
    """Tells on standard output when it leads and has written; obeys ``writes COUNT CONCURRENCY BYTES`` lines."""

    def __init__(self, name: str, members: dict[str, str], options: dict[str, Any]) -> None:
        self._name, self._members, self._options = name, members, options
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        clock, rng = MachineClock(), random.Random(os.urandom(8))
        plain = Context("bench", 256, clock, rng, self._name)
        transport = slotreeve_transport_zmq.build(slotreeve_transport_zmq.ZmqOptions(), plain)
        context = Context("bench", 256, clock, rng, self._name, self._members, transport, DirectoryStorage.open)
        self._election = slotreeve_election_fle.build(slotreeve_election_fle.FleOptions(**self._options), context)
        await self._election.start(self._changed)
        commands: asyncio.Queue[str] = asyncio.Queue()
        asyncio.get_running_loop().add_reader(0, lambda: commands.put_nowait(os.read(0, 4096).decode()))
        while line := await commands.get():
            await self._measure_writes(*map(int, line.split()[1:]))

    def _changed(self, leadership: Leadership) -> None:
        _tell(event="leader", leader=leadership.leader, term=leadership.term)
        if leadership.leading:
            task = asyncio.get_running_loop().create_task(self._serve(leadership.term))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, term: int) -> None:
        try:
            await self._election.state.write("leader", self._name.encode(), None, term)
        except ElectionError as error:
            _tell(event="not serving", why=str(error))
        else:
            _tell(event="serving", term=term)

    async def _measure_writes(self, count: int, concurrency: int, size: int) -> None:
        term = self._election.leadership().term
        latencies: list[float] = []

        async def write(worker: int) -> None:
            for _ in range(count // concurrency):
                began = time.perf_counter()
                await self._election.state.write(f"k{worker}", bytes(size), None, term)
                latencies.append(time.perf_counter() - began)

        began = time.perf_counter()
        try:
            await asyncio.gather(*(write(worker) for worker in range(concurrency)))
        except ElectionError as error:
            _tell(event="not written", why=f"after {time.perf_counter() - began:.3f} s: {error}")
            return
        seconds = time.perf_counter() - began
        _tell(event="written", per_second=round(len(latencies) / seconds), latency_ms=_figures(latencies))


def _tell(**what: Any) -> None:
    print(json.dumps({"at": time.monotonic(), **what}), flush=True)


# --- the measurement -------------------------------------------------------------------------------------------------


class _Process:
    def __init__(self, name: str, command: list[str]) -> None:
        self.name, self._command = name, command
        self.leads = False
        self.start()

    def start(self) -> None:
        self.leads = False
        self.process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._rest = b""

    def events(self) -> list[dict[str, Any]]:
        assert self.process.stdout is not None
        lines = (self._rest + (self.process.stdout.read() or b"")).split(b"\n")
        self._rest = lines.pop()
        return [json.loads(line) for line in lines]

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class _Cluster:
    def __init__(self, nodes: int, directory: Path, lease_ms: int, ping_ms: int) -> None:
        members = {f"meta-{i}": f"127.0.0.1:{port}" for i, port in enumerate(_free_ports(nodes), 1)}
        self.nodes = []
        for name in members:
            options = {"data_dir": str(directory / name), "lease_ms": lease_ms, "ping_interval_ms": ping_ms}
            arguments = ["--node", name, "--members", json.dumps(members), "--options", json.dumps(options)]
            self.nodes.append(_Process(name, [sys.executable, __file__, *arguments]))

    def wait_for(self, event: str, among: Sequence[_Process]) -> tuple[_Process, dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for node in among:
                for reported in node.events():
                    if reported["event"] == event:
                        return node, reported
                    if reported["event"] == "not written":
                        raise SystemExit(f"{node.name}: the writes failed {reported['why']}")
            time.sleep(0.0005)
        raise TimeoutError(f"no {event!r} within {PATIENCE_SECONDS:g} s")

    def fail_over(self, leader: _Process, stop: Callable[[_Process], None]) -> tuple[_Process, float]:
        others = [node for node in self.nodes if node is not leader]
        for node in others:
            node.events()
        began = time.monotonic()
        stop(leader)
        successor, reported = self.wait_for("serving", others)
        return successor, reported["at"] - began

    def stop(self) -> None:
        for node in self.nodes:
            node.process.send_signal(signal.SIGCONT)
            node.kill()


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "benchmark": "election",
        "params": {key: value for key, value in vars(arguments).items() if key not in ("node", "members", "options")},
        "cpus": os.cpu_count(),
        "results": [_measure_nodes(nodes, arguments) for nodes in arguments.nodes],
    }


def _measure_nodes(nodes: int, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        cluster = _Cluster(nodes, Path(directory), arguments.lease_ms, arguments.ping_ms)
        try:
            return {"nodes": nodes, **_measure(cluster, arguments)}
        finally:
            cluster.stop()


def _measure(cluster: _Cluster, arguments: argparse.Namespace) -> dict[str, Any]:
    leader, _ = cluster.wait_for("serving", cluster.nodes)
    killed, frozen, writes = [], [], []
    for _ in range(arguments.rounds):
        time.sleep(SETTLE_SECONDS)
        old = leader
        leader, seconds = cluster.fail_over(old, lambda node: node.process.kill())
        killed.append(seconds)
        old.kill()
        old.start()
        cluster.wait_for("leader", [old])
    for _ in range(arguments.rounds):
        time.sleep(SETTLE_SECONDS)
        old = leader
        leader, seconds = cluster.fail_over(old, lambda node: node.process.send_signal(signal.SIGSTOP))
        frozen.append(seconds)
        old.process.send_signal(signal.SIGCONT)
    time.sleep(SETTLE_SECONDS)
    for concurrency in arguments.concurrency:
        leader.events()
        leader.tell(f"writes {arguments.writes} {concurrency} {arguments.value_bytes}")
        _, reported = cluster.wait_for("written", [leader])
        figures = {key: reported[key] for key in ("per_second", "latency_ms")}
        writes.append({"concurrency": concurrency, "value_bytes": arguments.value_bytes, **figures})
    return {
        "fail_over_after_kill_ms": _against(TARGET_MS, killed),
        "fail_over_after_freeze_ms": _against(TARGET_MS + 3 * arguments.ping_ms, frozen),
        "writes": writes,
    }


def _against(target_ms: float, seconds: list[float]) -> dict[str, float | bool]:
    figures = _figures(seconds)
    return {**figures, "target_p50": target_ms, "met": figures["p50"] <= target_ms}


def _figures(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    median = round(1000 * statistics.median(ordered), 3)
    return {"count": len(ordered), "p50": median, "p90": at(0.9), "p99": at(0.99), "max": at(1.0)}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--rounds", type=int, default=10, help="fail-overs of each kind")
    parser.add_argument("--lease-ms", type=int, default=350)
    parser.add_argument("--ping-ms", type=int, default=100)
    parser.add_argument("--writes", type=int, default=2_000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16, 128])
    parser.add_argument("--value-bytes", type=int, default=200)
    parser.add_argument("--directory", help="where the data directories go; the default is the temporary directory")
    parser.add_argument("--node", help=argparse.SUPPRESS)
    parser.add_argument("--members", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--options", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.node:
        run_node(arguments.node, arguments.members, arguments.options)
    else:
        print(json.dumps(measure(arguments), indent=2))


if __name__ == "__main__":
    main()
