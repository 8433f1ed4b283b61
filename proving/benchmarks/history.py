"""How long questions to a full history take, and what it takes on the disk: ``python proving/benchmarks/history.py``.

It writes the history of one server that is told ``--rate`` changes a second for ``--hours``, in virtual time: providers
of ``--services`` come, change and go. Then it asks what services were at random seconds of that time, and for their
stories. Prints one JSON object; times are in milliseconds, without the way over the network.

A day of 1,000 changes a second takes an hour of one processor to write. With ``--directory`` the files are kept, and a
run that was stopped goes on where they end, as a server does that is started again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sqlite3
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
    parser.add_argument("--directory", type=Path, help="keep the files here, and go on with those that are here")
    given = parser.parse_args()
    if given.directory is not None:
        figures = measure(given.directory, given)
    else:
        with tempfile.TemporaryDirectory(prefix="slotreeve-bench-") as directory:
            figures = measure(Path(directory), given)
    machine = {"processors": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
    asked = {name: value for name, value in vars(given).items() if name != "directory"}
    print(json.dumps({"machine": machine, **asked, **figures}, indent=1))


def measure(directory: Path, given: argparse.Namespace) -> dict[str, object]:
    rng = random.Random(1)
    rules = HistorySettings(most_bytes=int(given.gigabytes * (1 << 30)))
    wrote_until_ms = last_change_ms(directory)
    files = HistoryFiles(directory, rules, max(BEGIN_MS, wrote_until_ms))
    names = [f"com.example.Service{number}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP" for number in range(given.services)]
    wrote = fill(files, given, names, rng, wrote_until_ms)
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


def last_change_ms(directory: Path) -> int:
    """When the last change was that the files of a directory have; 0 if there is none."""
    newest = max(directory.glob("*.db"), default=None)
    if newest is None:
        return 0
    database = sqlite3.connect(newest)
    try:
        return int(database.execute("SELECT coalesce(max(at), 0) FROM changes").fetchone()[0])
    finally:
        database.close()


def fill(
    files: HistoryFiles, given: argparse.Namespace, names: list[str], rng: random.Random, wrote_until_ms: int
) -> dict[str, object]:
    """Write what comes after ``wrote_until_ms``; returns what that took."""
    changed, services = ChangedServices(1 << 40), dict[str, dict[str, Publisher]]()
    held = HeldRecords(services, 1)
    began, spent, version, written = time.perf_counter(), 0.0, 0, 0
    flushes = int(3600 * given.hours / FLUSH_SECONDS)
    for flush in range(flushes):
        at_ms = BEGIN_MS + int(1000 * FLUSH_SECONDS * flush)
        is_there = at_ms <= wrote_until_ms
        for _ in range(int(given.rate * FLUSH_SECONDS)):
            version += 1
            name, provider = rng.choice(names), f"client-{rng.randrange(10)}"
            service = services.setdefault(name, {})
            if provider in service and rng.random() < 0.5:
                if not is_there:
                    changed.ends(name, provider, held, at_ms, "its client left")
                del service[provider]
            else:
                record = Publisher(provider, name, version, 1, "session-1@a", "", (PAYLOAD + b"%d" % version,))
                if not is_there:
                    changed.comes(record, held, at_ms)
                service[provider] = record
        if not is_there:
            before = time.process_time()
            if files.write(at_ms + 499, changed.take(1 << 40), []):
                changed.begin_anew()
            spent += time.process_time() - before
            written += int(given.rate * FLUSH_SECONDS)
        if flush % (flushes // 20 or 1) == 0:
            print(f"{100 * flush // flushes} % written, {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return {"changes": version, "write_microseconds_per_change": round(1e6 * spent / max(1, written), 2)}


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
