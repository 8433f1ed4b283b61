"""How long the lock election takes to replace a leader, what it asks of the database, and how fast state is written.

    python proving/benchmarks/lock_election.py --dialect postgres --rounds 10
    python proving/benchmarks/lock_election.py --dialect mysql --rounds 10 --lease-ms 5000

Starts a server of its own and three nodes, each a process. A fail-over is measured from just before the signal to the
leader until another node leads. Statements are the database's own count. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import slotreeve_election_mysql
from slotreeve.clock import MachineClock
from slotreeve.ports import Context, Election, Leadership
from slotreeve_chaos.sql_servers import MariaDbServer, PostgresServer, SqlServer
from slotreeve_election_mysql import LockOptions

PATIENCE_SECONDS = 60.0
IDLE_SECONDS = 10.0
NAMES = ["meta-1", "meta-2", "meta-3"]
SERVERS: dict[str, type[SqlServer]] = {"postgres": PostgresServer, "mysql": MariaDbServer}


# --- one node, in a process of its own -------------------------------------------------------------------------------


async def run_node(name: str, dialect: str, options: dict[str, Any]) -> None:
    """Lead or follow, and obey lines on standard input: ``resign``, ``stop``, or ``write COUNT CONCURRENCY``."""
    build = slotreeve_election_mysql.build_postgres if dialect == "postgres" else slotreeve_election_mysql.build_mysql
    members = {member: f"{member}:7712" for member in NAMES}
    election = build(LockOptions(**options), Context("bench", 256, MachineClock(), random.Random(), name, members))
    await election.start(_changed)
    commands: asyncio.Queue[str] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(0, lambda: commands.put_nowait(os.read(0, 4096).decode()))
    while words := (await commands.get()).split():
        match words:
            case ["stop"]:
                await election.stop()
                return
            case ["write", count, concurrency]:
                await _measure_writes(election, int(count), int(concurrency))


def _changed(leadership: Leadership) -> None:
    _tell(event="leads" if leadership.leading else "follows", leader=leadership.leader, term=leadership.term)


async def _measure_writes(election: Election, count: int, concurrency: int) -> None:
    term, latencies = election.leadership().term, list[float]()

    async def write(worker: int) -> None:
        for _ in range(count // concurrency):
            began = time.perf_counter()
            await election.state.write(f"k{worker}", bytes(200), None, term)
            latencies.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(write(worker) for worker in range(concurrency)))
    seconds = time.perf_counter() - began
    _tell(event="written", per_second=round(count / seconds), p50_ms=round(statistics.median(latencies) * 1000, 2))


def _tell(**what: Any) -> None:
    print(json.dumps({"at": time.monotonic(), **what}), flush=True)


# --- the measurement -------------------------------------------------------------------------------------------------


class _Node:
    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self.name, self._command = name, [sys.executable, __file__, "--node", name, *arguments]
        self.start()

    def start(self) -> None:
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


def _wait_for(event: str, nodes: Sequence[_Node]) -> tuple[_Node, dict[str, Any]]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for node in nodes:
            for reported in node.events():
                if reported["event"] == event:
                    return node, reported
        time.sleep(0.0005)
    raise TimeoutError(f"no {event!r} within {PATIENCE_SECONDS:g} s")


def _fail_over(nodes: list[_Node], leader: _Node, how: str, rng: random.Random) -> tuple[_Node, float]:
    time.sleep(rng.uniform(1.0, 2.0))  # any moment between two renewals; the leader holds the notifier's lock
    others = [node for node in nodes if node is not leader]
    for node in others:
        node.events()
    began = time.monotonic()
    if how == "stop":
        leader.tell("stop")
    else:
        leader.process.send_signal(signal.SIGKILL)
    successor, reported = _wait_for("leads", others)
    leader.process.wait()
    leader.start()
    return successor, reported["at"] - began


def _statements(server: SqlServer) -> int:
    """How many statements the database has carried out."""
    if server.dialect == "postgres":
        from slotreeve_election_mysql.postgres import POSTGRES

        session = POSTGRES.connect(server.dsn(), 5.0, 60.0, 30.0)
        # Every statement is a transaction of its own here.
        query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        session.query("SELECT pg_stat_clear_snapshot()")
        count = int(str(session.query(query)[0][0]))
    else:
        from slotreeve_election_mysql.mysql import MYSQL

        session = MYSQL.connect(server.dsn(), 5.0, 60.0, 30.0)
        count = int(str(session.query("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1]))
    session.close()
    return count


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(arguments.seed)
    with SERVERS[arguments.dialect]() as server:
        options = {"dsn": server.dsn(), "lease_ms": arguments.lease_ms, "renew_ms": arguments.renew_ms}
        shared = ["--dialect", arguments.dialect, "--options", json.dumps(options)]
        nodes = [_Node(name, shared) for name in NAMES]
        try:
            leader, _ = _wait_for("leads", nodes)
            spans: dict[str, list[float]] = {"stop": [], "kill": []}
            for how, found in spans.items():
                for _ in range(arguments.rounds):
                    leader, seconds = _fail_over(nodes, leader, how, rng)
                    found.append(seconds)
            time.sleep(arguments.lease_ms / 1000 + 2.0)
            before = _statements(server)
            time.sleep(IDLE_SECONDS)
            load = (_statements(server) - before) / IDLE_SECONDS / len(nodes)
            writes = []
            for concurrency in (1, 16):
                leader.tell(f"write 800 {concurrency}")
                reported = _wait_for("written", [leader])[1]
                writes.append(
                    {"concurrency": concurrency, "per_second": reported["per_second"], "p50_ms": reported["p50_ms"]}
                )
        finally:
            for node in nodes:
                node.process.kill()
                node.process.wait()
    return {
        "benchmark": "lock_election",
        "params": {"dialect": arguments.dialect, "lease_ms": arguments.lease_ms, "rounds": arguments.rounds},
        "cpus": os.cpu_count(),
        "after_kill_seconds": _figures(spans["kill"]),
        "after_stop_seconds": _figures(spans["stop"]),
        "statements_per_node_and_second": round(load, 2),
        "writes": writes,
    }


def _figures(seconds: Sequence[float]) -> dict[str, float]:
    return {"median": round(statistics.median(seconds), 3), "max": round(max(seconds), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialect", choices=sorted(SERVERS), default="postgres")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--lease-ms", type=int, default=5_000)
    parser.add_argument("--renew-ms", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--node", help=argparse.SUPPRESS)
    parser.add_argument("--options", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.node:
        asyncio.run(run_node(arguments.node, arguments.dialect, arguments.options))
    else:
        print(json.dumps(measure(arguments), indent=2))


if __name__ == "__main__":
    main()
