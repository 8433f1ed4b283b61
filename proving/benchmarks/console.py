"""How soon the console has painted what somebody did, in a real browser.

Example: ``PYTHONPATH=. python proving/benchmarks/console.py``

A cluster of processes has ``--services`` services with ``--instances`` instances and ``--slots`` slots, and lost a data
server for some seconds. Chromium opens each page, searches, goes from page to page, and walks over the slot map and
back in time, ``--rounds`` times each. Prints one JSON object: for each kind the milliseconds from the deed to the first
paint of what came of it, as percentiles. Cluster, gateway and browser share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

from slotreeve_harness.figures import spread_of

from tests.faces.console.chromium import Chromium, find_chromium
from tests.faces.console.interactions import Interactions, large_cluster


async def measure(given: argparse.Namespace, chromium: str, directory: Path) -> dict[str, object]:
    """Start everything, measure, and end it."""
    async with large_cluster(directory / "cluster", given.services, given.instances, given.slots) as url:
        print("the cluster is filled", file=sys.stderr)
        with Chromium(chromium, directory / "profile") as browser:
            found = await Interactions(browser, url, given.services, given.slots).measured(given.rounds)
            complaints = browser.complaints()
    return {"milliseconds": {name: spread_of(took) for name, took in found.items()}, "complaints": complaints}


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=10_000)
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        sys.exit("there is no Chromium; install the package chromium")
    with tempfile.TemporaryDirectory(prefix="slotreeve-console-") as directory:
        figures = asyncio.run(measure(given, chromium, Path(directory)))
    machine = {"processors": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
    print(json.dumps({"machine": machine, **vars(given), **figures}, indent=1))


if __name__ == "__main__":
    main()
