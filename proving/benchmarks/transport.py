"""What the ZeroMQ transport costs over loopback between processes, as JSON.

``python proving/benchmarks/transport.py [--uvloop] [--profile FILE]``

* ``pipelined``: requests and replies a second on one connection, each request sent when an earlier one is answered.
* ``round_trip``: microseconds for one request at a time.
* ``fan_out``: microseconds that a sender spends for each connection on one frame sent to all, with what it costs to
  hand the frames to libzmq; and until the last of them has answered.

Every figure is a median (and percentiles) over runs in one process; the peer is another, so two cores are at work.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import platform
import statistics
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Coroutine
from typing import TypeVar

import zmq
from slotreeve.clock import MachineClock
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.general_messages import Done, Opaque, Ping
from slotreeve_transport_zmq.transport import ZmqTransport

T = TypeVar("T")

HELLO = Hello("bench", "bench", Role.TOOL, "bench-process")
REQUESTS, WINDOW, RUNS = 50_000, 256, 5
ROUND_TRIPS = 5_000
CONNECTIONS, FAN_OUTS, FAN_OUT_BYTES = 1_000, 20, 1_000


class Replying:
    """Answers requests, and acknowledges pushed messages with one of its own."""

    def opened(self, connection: Connection) -> None:
        pass

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        if request_id is not None:
            connection.reply(request_id, Done())
        elif isinstance(message, Opaque):
            connection.send(Done())

    def closed(self, connection: Connection, reason: str) -> None:
        pass


class Counting(Replying):
    """Remembers connections and counts acknowledgements."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.acknowledged = 0
        self.all_acknowledged = asyncio.Event()

    def opened(self, connection: Connection) -> None:
        self.connections.append(connection)

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        self.acknowledged += 1
        if self.acknowledged == len(self.connections):
            self.all_acknowledged.set()


class Pipeline:
    """Keeps a window of requests in flight until so many are answered."""

    def __init__(self, connection: Connection, requests: int) -> None:
        self._connection = connection
        self._to_send = self._to_come = requests
        self._done = asyncio.get_running_loop().create_future()
        self._ping = Ping()

    async def run(self) -> None:
        for _ in range(WINDOW):
            self._send()
        await self._done

    def _send(self) -> None:
        if self._to_send:
            self._to_send -= 1
            self._connection.request(self._ping, self._answered, 30.0)

    def _answered(self, reply: Message | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        self._to_come -= 1
        if not self._to_come:
            self._done.set_result(None)
        self._send()


def figures(samples: list[float]) -> dict[str, float]:
    """Percentiles, rounded."""
    ordered = sorted(samples)
    at = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(int(q * len(ordered)), len(ordered) - 1)], 2) for name, q in at.items()}


async def measure_requests(connection: Connection) -> dict[str, object]:
    rates, own_seconds = [], []
    for _ in range(RUNS):
        started, own = time.perf_counter(), time.process_time()
        await Pipeline(connection, REQUESTS).run()
        rates.append(REQUESTS / (time.perf_counter() - started))
        own_seconds.append((time.process_time() - own) / REQUESTS)
    round_trips = []
    for _ in range(ROUND_TRIPS):
        started = time.perf_counter()
        await connection.ask(Ping(), 30.0)
        round_trips.append((time.perf_counter() - started) * 1e6)
    return {
        "pipelined_per_second": figures(rates),
        "pipelined_asker_cpu_us_per_request": round(statistics.median(own_seconds) * 1e6, 2),
        "round_trip_us": figures(round_trips),
    }


async def measure_fan_out(counting: Counting) -> dict[str, object]:
    sending, complete = [], []
    frame = encode_message(Opaque("fan-out", b"x" * FAN_OUT_BYTES))
    for _ in range(FAN_OUTS):
        counting.acknowledged = 0
        counting.all_acknowledged.clear()
        started = time.perf_counter()
        own = time.thread_time()
        for connection in counting.connections:
            connection.send_encoded(frame)
        await asyncio.sleep(0)  # the turn ends, in which the frames are handed to libzmq
        sending.append((time.thread_time() - own) / len(counting.connections) * 1e6)
        await counting.all_acknowledged.wait()
        complete.append((time.perf_counter() - started) * 1e3)
    return {"sender_us_per_connection": figures(sending), "all_acknowledged_ms": figures(complete)}


async def peer(address: str) -> None:
    """The other process: one connection to reply on and many to be sent to, until standard input ends."""
    transport = ZmqTransport(MachineClock())
    listener = await transport.listen("127.0.0.1:0", HELLO, Replying())
    for _ in range(CONNECTIONS):
        await transport.connect(address, HELLO, Replying(), 10.0)
    sys.stdout.write(listener.address + "\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await transport.close()


async def measure(uvloop: bool, profile: cProfile.Profile | None) -> dict[str, object]:
    transport, counting = ZmqTransport(MachineClock()), Counting()
    listener = await transport.listen("127.0.0.1:0", HELLO, counting)
    arguments = [__file__, "--peer", listener.address, *(["--uvloop"] if uvloop else [])]
    other = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=PIPE, stdout=PIPE)
    assert other.stdout is not None
    address = (await other.stdout.readline()).decode().strip()
    connection = await transport.connect(address, HELLO, Replying(), 10.0)
    if profile is not None:
        profile.enable()
    results = await measure_requests(connection) | await measure_fan_out(counting)
    if profile is not None:
        profile.disable()
    await transport.close()
    await other.communicate(b"")  # its input ends, and so does it
    return results


def run(main: Coroutine[None, None, T], uvloop: bool) -> T:
    if uvloop:
        import uvloop as fast

        return fast.run(main)
    return asyncio.run(main)


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of the ZeroMQ transport over loopback.")
    parser.add_argument("--uvloop", action="store_true")
    parser.add_argument("--profile", help="write cProfile's figures of the measuring process there")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        run(peer(arguments.peer), arguments.uvloop)
        return
    profile = cProfile.Profile() if arguments.profile else None
    results = run(measure(arguments.uvloop, profile), arguments.uvloop)
    if profile is not None:
        profile.dump_stats(arguments.profile)
    parameters = {
        "loop": "uvloop" if arguments.uvloop else "asyncio",
        "python": platform.python_version(),
        "libzmq": zmq.zmq_version(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 1),
        "requests": REQUESTS,
        "window": WINDOW,
        "runs": RUNS,
        "round_trips": ROUND_TRIPS,
        "connections": CONNECTIONS,
        "fan_outs": FAN_OUTS,
        "fan_out_bytes": FAN_OUT_BYTES,
    }
    print(json.dumps({"parameters": parameters, "results": results}, indent=1))


if __name__ == "__main__":
    main()
