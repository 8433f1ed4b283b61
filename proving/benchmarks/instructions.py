"""Processor instructions of the main operations in two checkouts: figures that no other load on the machine changes.

Example: ``python proving/benchmarks/instructions.py --before ../before --after . > instructions.json``

A whole cluster (3 meta, 3 data, 2 session servers, one client) runs in one process on the memory transport and virtual
time, under valgrind's ``cachegrind``, which counts the instructions that it executes. Each figure is a difference of
two runs, so that start and set-up do not count: thousands of instructions for each operation, of all processes
together. The transport over sockets is not part of it: for that see ``proving/benchmarks/pairs.py``. Each checkout
needs its own ``.venv`` (``./run setup``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import astuple, dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Load:
    """What one run does: so many ``names`` are published, and published again in so many ``rounds``; ``subscribers``
    subscribe to all of them before; so many ``lookups`` follow."""

    names: int = 2_000
    rounds: int = 0
    subscribers: int = 0
    lookups: int = 0


BASE = Load()
WATCHED = Load(subscribers=1)
FIGURES = {
    "publish of a new name": (BASE, replace(BASE, names=8_000), 6_000),
    "publish of a known name": (BASE, replace(BASE, rounds=10), 20_000),
    "publish of a known name with a subscriber": (WATCHED, replace(WATCHED, rounds=10), 20_000),
    "lookup": (BASE, replace(BASE, lookups=5_000), 5_000),
}
"""The two runs whose difference is a figure, and how many operations lie between them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="checkout of the older state")
    parser.add_argument("--after", type=Path, required=True, help="checkout of the newer state")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not on PATH; install it (apt-get install valgrind)")
    loads = [load for pair in FIGURES.values() for load in pair[:2]]
    counted = {
        name: {load: instructions(checkout, load) for load in dict.fromkeys(loads)}
        for name, checkout in (("before", given.before), ("after", given.after))
    }
    figures = {}
    for figure, (less, more, operations) in FIGURES.items():
        before, after = ((runs[more] - runs[less]) / operations / 1_000 for runs in counted.values())
        figures[figure] = {"before": round(before, 2), "after": round(after, 2), "ratio": round(after / before, 3)}
    print(json.dumps({"thousands_of_instructions": figures}, indent=2))


def instructions(checkout: Path, load: Load) -> int:
    """The instructions of one run in a checkout."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    program = [str(checkout.resolve() / ".venv/bin/python"), __file__, "run", *map(str, astuple(load))]
    print(f"{checkout}: {load}", file=sys.stderr)
    done = subprocess.run(
        [*command, *program], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "1"}
    )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    assert found is not None, done.stderr
    return int(found.group(1).replace(",", ""))


def run(load: Load) -> None:
    """One run: it ends without stopping the cluster, because that costs more the more names there are."""
    from slotreeve_conformance import virtual_time
    from slotreeve_simulator.simulated_cluster import SimulatedCluster

    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            names = [f"com.example.Service{number}" for number in range(load.names)]
            for _ in range(load.subscribers):
                reader = cluster.client()
                await asyncio.gather(*[reader.subscribe(name).ready() for name in names])
            client = cluster.client()
            publications = [client.publish(name, b"x" * 200) for name in names]
            await client.flush()
            for number in range(load.rounds):
                for publication in publications:
                    publication.republish(b"%100d" % number)
                await client.flush()
                await asyncio.sleep(0.1)  # so that the change is pushed by itself
            for number in range(load.lookups):
                await client.get(names[number % len(names)])
            os._exit(0)

    virtual_time.run(scenario, seed=1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(Load(*map(int, sys.argv[2:])))
    else:
        main()
