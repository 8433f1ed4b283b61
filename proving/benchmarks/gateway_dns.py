"""What the face for DNS of one gateway answers a second, as JSON.

    python proving/benchmarks/gateway_dns.py [--runs 5] [--seconds 3] [--beside DIRECTORY]

Three processes: ``slotreeve dev``, one gateway, and this one, which asks over UDP with as little work as possible:
``ASKING`` questions are under way, and each answer is followed by the next one. The questions are for services of one,
ten and forty instances, as A and SRV.

* ``per_second``: answers a second.
* ``gateway_cpu_us``: processor time of the gateway for each of them. Where other work takes processors away, a million
  divided by it is what the gateway itself could do.

``--beside``: another checkout of this repository; its gateway is measured in turn with ours, as ``beside``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dns.message
from slotreeve_client import Instance, connect
from slotreeve_harness.figures import percentile
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer

ASKING = 16
SIZES = (1, 10, 40)
PAYLOAD = 4_096
LOST_SECONDS = 10.0
ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"


class DnsBench:
    """A gateway that is measured."""

    def __init__(self, port: int, pid: int) -> None:
        self._port, self._stat = port, Path(f"/proc/{pid}/stat")

    def run(self, name: str, kind: str, seconds: float) -> tuple[float, float, int]:
        """Answers a second, microseconds of the gateway for each, and records in the smallest answer."""
        question = dns.message.make_query(name, kind, use_edns=True, payload=PAYLOAD).to_wire()
        count, least = 0, 65_535
        with socket.socket(type=socket.SOCK_DGRAM) as asker:
            asker.connect((HOST, self._port))
            asker.settimeout(LOST_SECONDS)
            cpu, began = self._cpu(), time.perf_counter()
            for _ in range(ASKING):
                asker.send(question)
            while time.perf_counter() < began + seconds:
                answer = asker.recv(PAYLOAD)
                asker.send(question)
                count += 1
                least = min(least, int.from_bytes(answer[6:8]))
            took, spent = time.perf_counter() - began, self._cpu() - cpu
        return count / took, 1e6 * spent / count, least

    def _cpu(self) -> float:
        user, system = self._stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def gateway(dev: DevServer, checkout: Path) -> Iterator[DnsBench]:
    """A gateway process of a checkout."""
    listen, port = free_address(), int(free_address().rpartition(":")[2])
    flags = {"gateway.sessions": dev.session_address, "gateway.listen": listen, "cluster.meta.meta-1": dev.meta_address}
    flags |= {"face.use": "dns", "face.dns.port": str(port), "face.dns.udp_bytes_per_source": str(2**40)}
    settings = [part for key, value in flags.items() for part in ("--set", f"{key}={value}")]
    rooms = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["dev-mode-dirs"]
    paths = os.pathsep.join(str(checkout / room) for room in rooms)
    command = [sys.executable, "-m", "slotreeve_cli", "gateway", "run", "--until-eof", *settings]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert "listens" in process.stdout.readline()
    try:
        yield DnsBench(port, process.pid)
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


async def measure(dev: DevServer, benches: dict[str, DnsBench], runs: int, seconds: float) -> dict[str, object]:
    """Each question at each gateway, in turn."""
    loop = asyncio.get_running_loop()
    found: dict[str, dict[str, object]] = {name: {} for name in benches}
    async with connect(dev.session_address) as client:
        for size in SIZES:
            for number in range(size):
                client.register(f"bench.Of{size}", Instance(f"10.0.{size}.{number}", 80))
        await client.flush()
        await asyncio.sleep(3)  # until the gateways have listed them
        for size in SIZES:
            for kind in ("A", "SRV"):
                taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in benches}
                for _ in range(runs + 1):
                    for name, bench in benches.items():
                        asking = loop.run_in_executor(
                            None, bench.run, f"bench.Of{size}.service.slotreeve.", kind, seconds
                        )
                        taken[name].append(await asking)
                for name, figures in taken.items():
                    found[name][f"{kind}_of_{size}"] = described(figures[1:])  # the first run warms up
    return dict(found)


def described(figures: Sequence[tuple[float, float, int]]) -> dict[str, object]:
    rates, costs, records = zip(*figures, strict=True)
    spread = {"min": 0.0, "p50": 0.5, "max": 1.0}
    return {
        "per_second": {name: round(percentile(list(rates), share)) for name, share in spread.items()},
        "gateway_cpu_us": {name: round(percentile(list(costs), share), 1) for name, share in spread.items()},
        "answers_at_least": min(records),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What the face for DNS of one gateway answers a second.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turn")
    arguments = parser.parse_args()
    load = round(os.getloadavg()[0], 1)
    with DevServer() as dev, gateway(dev, ROOT) as ours:
        if arguments.beside is None:
            results = asyncio.run(measure(dev, {"ours": ours}, arguments.runs, arguments.seconds))
        else:
            with gateway(dev, arguments.beside) as other:
                benches = {"ours": ours, "beside": other}
                results = asyncio.run(measure(dev, benches, arguments.runs, arguments.seconds))
    parameters = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_before": load,
        "asking": ASKING,
        "seconds": arguments.seconds,
        "runs": arguments.runs,
        "payload": PAYLOAD,
    }
    print(json.dumps({"parameters": parameters, "results": results}, indent=1))


if __name__ == "__main__":
    main()
