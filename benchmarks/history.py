"""How long questions to a full history take, and what it takes on the disk: ``python benchmarks/history.py``.

It writes the history of one server that is told ``--rate`` changes a second for ``--hours``, in virtual time: providers
of ``--services`` come, change and go. Then it asks what services were at random seconds of that time, and for their
stories. Prints one JSON object; times are in milliseconds, without the way over the network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from slotreeve.model.publisher import Publisher
from slotreeve_events.changed_services import ChangedServices, HeldRecords
from slotreeve_events.history_files import HistoryFiles
from slotreeve_events.settings import HistorySettings
from slotreeve_protocol.history_messages import KnownState

BEGIN_MS = 1_700_000_000_000
FLUSH_SECONDS = 0.5
QUESTIONS = 200
PAYLOAD = b"x" * 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--services", type=int, default=10_000)
    parser.add_argument("--gigabytes", type=float, default=40.0, help="history.most_bytes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slotreeve-bench-") as directory:
        figures = measure(Path(directory), given)
    machine = {"processors": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
    print(json.dumps({"machine": machine, **vars(given), **figures}, indent=1))


def measure(directory: Path, given: argparse.Namespace) -> dict[str, object]:
    rng = random.Random(1)
    rules = HistorySettings(most_bytes=int(given.gigabytes * (1 << 30)))
    files = HistoryFiles(directory, rules, BEGIN_MS)
    names = [f"com.example.Service{number}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP" for number in range(given.services)]
    wrote = fill(files, given, names, rng)
    end_ms = BEGIN_MS + int(1000 * 3600 * given.hours)
    known = {kind.value: 0 for kind in KnownState}

    def state() -> None:
        known[files.state(rng.choice(names), rng.randrange(BEGIN_MS, end_ms)).known.value] += 1

    figures: dict[str, object] = {
        **wrote,
        "bytes": sum(path.stat().st_size for path in directory.iterdir()),
        "files": sum(1 for _ in directory.glob("*.db")),
        "state_ms": timed(state),
        "states_known": known,
        "story_ms": timed(lambda: files.changes(rng.choice(names), BEGIN_MS, end_ms, 100)),
        "all_changes_ms": timed(lambda: files.changes("", rng.randrange(BEGIN_MS, end_ms), end_ms, 100)),
    }
    files.close()
    return figures


def fill(files: HistoryFiles, given: argparse.Namespace, names: list[str], rng: random.Random) -> dict[str, object]:
    """Write all of it; returns what that took."""
    changed, services = ChangedServices(1 << 40), dict[str, dict[str, Publisher]]()
    held = HeldRecords(services, 1)
    began, spent, version = time.perf_counter(), 0.0, 0
    flushes = int(3600 * given.hours / FLUSH_SECONDS)
    for flush in range(flushes):
        at_ms = BEGIN_MS + int(1000 * FLUSH_SECONDS * flush)
        for _ in range(int(given.rate * FLUSH_SECONDS)):
            version += 1
            name, provider = rng.choice(names), f"client-{rng.randrange(10)}"
            service = services.setdefault(name, {})
            if provider in service and rng.random() < 0.5:
                changed.ends(name, provider, held, at_ms, "its client left")
                del service[provider]
            else:
                record = Publisher(provider, name, version, 1, "session-1@a", "", (PAYLOAD + b"%d" % version,))
                changed.comes(record, held, at_ms)
                service[provider] = record
        before = time.process_time()
        if files.write(at_ms + 499, changed.take(1 << 40), []):
            changed.begin_anew()
        spent += time.process_time() - before
        if flush % (flushes // 20 or 1) == 0:
            print(f"{100 * flush // flushes} % written, {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return {"changes": version, "write_microseconds_per_change": round(1e6 * spent / version, 2)}


def timed(question: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of many questions."""
    took = []
    for _ in range(QUESTIONS):
        began = time.perf_counter()
        question()
        took.append(1000 * (time.perf_counter() - began))
    cuts = statistics.quantiles(took, n=100)
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2), "longest": round(max(took), 2)}


if __name__ == "__main__":
    main()
