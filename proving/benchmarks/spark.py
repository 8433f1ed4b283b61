"""What the Spark side is asked to reach, measured on this machine; prints one JSON object.

    python proving/benchmarks/spark.py                  # 10 million keys, 2 balancers x 20 traces x 10 seeds: minutes
    python proving/benchmarks/spark.py --keys 300000 --seeds 1
    python proving/benchmarks/spark.py --history 0.001  # the pipeline on a thousandth of 30 days at 1,000 records/s

Slot functions on generated keys with local[2]: keys a second for crc32c alone, of the whole job and of one core in the
function itself, for a row-at-a-time Python UDF in the same run, and for crc32c and md5 on every key; the same counts as
a single process; the peak memory of Spark's Python workers. Balancers: seconds for all cells on one core and on two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import psutil
from slotreeve_slotfunc.crc32c import Crc32c
from slotreeve_slotfunc.md5 import Md5
from slotreeve_spark.compare import balancers, keys, slot_functions
from slotreeve_spark.pipeline import marts
from slotreeve_spark.pipeline.compact import compact
from slotreeve_spark.pipeline.history import table_at
from slotreeve_spark.pipeline.ingest import ingest
from slotreeve_spark.pipeline.warehouse import Warehouse
from slotreeve_spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
SLOTS = 256
WARM_UP_KEYS = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--udf-keys", type=int, default=0, help="for the row-at-a-time UDF; default: --keys")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--history", type=float, help="share of the records of 30 days; only the pipeline then")
    parser.add_argument("--cells-on", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cells_on:
        print(json.dumps(cells(arguments.cells_on, arguments.seeds)))
        return
    if arguments.history:
        load, session = os.getloadavg(), open_session("local[2]", {"spark.driver.memory": "3g"})
        with tempfile.TemporaryDirectory(prefix="slotreeve-history-") as directory:
            figures = history_figures(session, Path(directory), arguments.history)
        print(json.dumps({"load_before": load, **figures}, indent=1))
        return
    session = open_session("local[2]", {})
    figures = slot_function_figures(session, arguments.keys, arguments.udf_keys or arguments.keys, arguments.runs)
    session.stop()
    figures["balancers"] = balancer_figures(arguments.seeds)
    print(json.dumps({"load_before": os.getloadavg(), **figures}, indent=1))


# --- slot functions --------------------------------------------------------------------------------------------------


def slot_function_figures(session: SparkSession, number: int, udf_number: int, runs: int) -> dict[str, object]:
    counted(session, WARM_UP_KEYS, ("crc32c", "md5"))
    by_row(session, WARM_UP_KEYS)
    with _Peak() as peak:
        alone = best(lambda: counted(session, number, ("crc32c",)), runs)
        both = best(lambda: counted(session, number, ("crc32c", "md5")), runs)
    row_seconds = best(lambda: by_row(session, udf_number), runs)[0]
    expected = single_process(min(number, 1_000_000))
    found = counted(session, min(number, 1_000_000), ("crc32c", "md5"))
    rate, row_rate = number / alone[0], udf_number / row_seconds
    return {
        "keys": number,
        "runs": runs,
        "crc32c_keys_per_second": round(rate),
        "crc32c_keys_per_second_per_core_in_the_function": round(rate_in_function(session, number)),
        "row_at_a_time_keys": udf_number,
        "row_at_a_time_keys_per_second": round(row_rate),
        "times_faster": round(rate / row_rate, 1),
        "crc32c_and_md5_keys_per_second": round(number / both[0]),
        "peak_python_worker_megabytes": round(peak.highest / 1e6),
        "equal_to_a_single_process": found == expected,
    }


def best(job: Callable[[], object], runs: int) -> tuple[float, object]:
    """Shortest seconds of several runs, and the last result."""
    seconds, result = [], None
    for _ in range(runs):
        began = time.perf_counter()
        result = job()
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


def counted(session: SparkSession, number: int, functions: tuple[str, ...]) -> dict[tuple[str, int], int]:
    asked = slot_functions.SlotFunctionQuestion(functions, (SLOTS,))
    counts = slot_functions.count(keys.open_keys(session, f"generated:{number}"), asked)
    rows = counts.where("measure = 'counted'").select("function", "slot", "value").collect()
    return {(row.function, row.slot): row.value for row in rows}


def rate_in_function(session: SparkSession, number: int) -> float:
    """Keys a second of processor time that was spent in the function, without making the keys and counting."""
    asked = slot_functions.SlotFunctionQuestion(("crc32c",), (SLOTS,))
    counts = slot_functions.count(keys.open_keys(session, f"generated:{number}"), asked)
    (row,) = counts.where(counts.measure == slot_functions.TIMED).collect()
    return 1e9 * number / float(row.value)


def by_row(session: SparkSession, number: int) -> int:
    """The same count as a plain Python UDF would do it."""
    from pyspark.sql import functions as f

    slot_of = Crc32c(SLOTS).slot_of
    text = "concat('com.example.team', id & 63, '.Service', id, '#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP')"
    udf = f.udf(slot_of, "int", useArrow=False)
    frame = session.range(0, number, 1, 8).select(udf(f.expr(text)).alias("slot"))
    return len(frame.groupBy("slot").count().collect())


def single_process(number: int) -> dict[tuple[str, int], int]:
    found = {}
    for name, slot_of in (("crc32c", Crc32c(SLOTS).slot_of), ("md5", Md5(SLOTS).slot_of)):
        counts = np.bincount([slot_of(key) for key in keys.generated(0, number).to_pylist()], minlength=SLOTS)
        found.update({(name, slot): int(value) for slot, value in enumerate(counts)})
    return found


class _Peak:
    """The most memory that one Python worker of Spark's has while the block runs."""

    def __enter__(self) -> _Peak:
        self.highest, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._over.wait(0.2):
            for process in me.children(recursive=True):
                try:
                    if "python" in process.name():
                        self.highest = max(self.highest, process.memory_info().rss)
                except psutil.Error:
                    continue


# --- balancers -------------------------------------------------------------------------------------------------------


def balancer_figures(seeds: int) -> dict[str, object]:
    """Seconds for all cells, in a Spark of its own for each number of cores."""
    runs = {}
    for cores in (1, 2):
        command = [sys.executable, __file__, "--cells-on", str(cores), "--seeds", str(seeds)]
        runs[cores] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {
        "cells": runs[1]["cells"],
        "seconds_on_one_core": runs[1]["seconds"],
        "seconds_on_two_cores": runs[2]["seconds"],
        "speed_up": round(runs[1]["seconds"] / runs[2]["seconds"], 2),
        "same_rows": runs[1]["rows"] == runs[2]["rows"],
    }


def cells(cores: int, seeds: int) -> dict[str, object]:
    session = open_session(f"local[{cores}]", {})
    asked = balancers.BalancerQuestion(("default", "even"), seeds=seeds)
    balancers.compare(session, balancers.BalancerQuestion(("even",), seeds=1, kinds=("scale out by one",))).collect()
    measured = ("decision_ms", "slowest_decision_ms")
    began = time.perf_counter()
    table = balancers.compare(session, asked).drop(*measured).orderBy("competitor", "trace", "seed").toArrow()
    seconds = time.perf_counter() - began
    session.stop()
    return {"cells": table.num_rows, "seconds": round(seconds, 2), "rows": hash_of(table.to_pylist())}


# --- the pipeline ----------------------------------------------------------------------------------------------------

DAYS, RECORDS_A_SECOND, INGESTS = 30, 1_000, 3
SERVERS, CLUSTER_SLOTS, SERVICES = 20, 256, 1_000
START_MS = 1_760_000_000_000 // 86_400_000 * 86_400_000
OF_CHANGES = ("slot_history", "moves", "moves_by_cause", "membership")
OF_RECORDS = ("service_timeline", "push_latency", "staleness")


def history_figures(session: SparkSession, directory: Path, share: float) -> dict[str, object]:
    """Seconds and bytes of the pipeline on a share of the registrations and pushes of 30 days, with all changes of
    servers and slots: those do not grow with the registrations. Each data server restarts once a day."""
    log, store = directory / "log", Warehouse.open(directory / "warehouse")
    log.mkdir()
    records, log_bytes, seconds = 0, 0, {"ingest": 0.0}
    for part in range(INGESTS):
        for day in range(part * DAYS // INGESTS, (part + 1) * DAYS // INGESTS):
            text = "\n".join(day_of_events(day, round(86_400 * RECORDS_A_SECOND * share)))
            (log / f"{day:02}.jsonl").write_text(text)
            log_bytes += len(text)
        took, done = timed(lambda: ingest(session, log, store))
        seconds["ingest"] += took
        records += done.cleaned
    small = size_of(directory / "warehouse" / "cleaned")
    moment = datetime.fromtimestamp(START_MS / 1000 + 15.3 * 86_400, UTC)
    seconds["marts of changes, not compacted"], _ = timed(lambda: marts.build(session, store, OF_CHANGES))
    seconds["compact"], _ = timed(lambda: compact(session, store, keep_hours=0))
    seconds["compact again, nothing to do"], _ = timed(lambda: compact(session, store, keep_hours=0))
    seconds["marts of changes"], rows = timed(lambda: marts.build(session, store, OF_CHANGES))
    seconds["marts of records"], _ = timed(lambda: marts.build(session, store, OF_RECORDS))
    seconds["at"], table = timed(lambda: table_at(session, store, moment).collect())
    assert len(table) == CLUSTER_SLOTS
    return {
        "days": DAYS,
        "share_of_records": share,
        "records": records,
        "slot_history_rows": rows["slot_history"],
        "seconds": {name: round(took, 2) for name, took in seconds.items()},
        "megabytes": {
            "log": round(log_bytes / 1e6, 1),
            "raw": round(size_of(directory / "warehouse" / "raw")[1] / 1e6, 1),
            "cleaned, not compacted": round(small[1] / 1e6, 1),
            "cleaned, compacted": round(size_of(directory / "warehouse" / "compacted" / "cleaned")[1] / 1e6, 1),
            "slot_history": round(size_of(directory / "warehouse" / "marts" / "slot_history")[1] / 1e6, 2),
        },
        "files_of_cleaned": {
            "not compacted": small[0],
            "compacted": size_of(directory / "warehouse" / "compacted" / "cleaned")[0],
        },
    }


def timed(job: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = job()
    took = time.perf_counter() - began
    print(f"{took:.1f} s: {str(result)[:100]}", file=sys.stderr)
    return took, result


def size_of(directory: Path) -> tuple[int, int]:
    """Parquet files below a directory, and their bytes."""
    sizes = [path.stat().st_size for path in directory.rglob("*.parquet")]
    return len(sizes), sum(sizes)


def day_of_events(day: int, records: int) -> Iterator[str]:
    """Half of the records are registrations, four in a line, half are pushes of one change."""
    start, number = START_MS + day * 86_400_000, 0

    def line(after_ms: int, kind: str, **fields: object) -> str:
        nonlocal number
        number += 1
        known = {"v": 1, "id": f"session-1@{day}/{number}", "at_ms": start + after_ms, "node": "session-1"}
        return json.dumps({**known, "kind": kind, **fields}, separators=(",", ":"))

    for turn in range(records // 8):
        after_ms, first = turn * 86_400_000 // (records // 8), turn * 4
        names = [f"com.example.Service{(first + n) % SERVICES}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP" for n in range(4)]
        ids = [f"037dc99d9ab3e6b7-{(first + n) % 20_000}" for n in range(4)]
        version = day * 1_000 + first // 20_000
        yield line(after_ms, "registered", services=names, register_ids=ids, versions=[version] * 4)
        for name, register_id in zip(names, ids, strict=True):
            changes = [{"register_id": register_id, "version": version}]
            yield line(after_ms + 5, "pushed", service=name, subscribers=3, changes=changes)
    for server in range(SERVERS):
        for back in (False, True):
            after_ms, epoch = server * 3_600_000 + back * 60_000, 1 + 2 * (day * SERVERS + server) + back
            here = f"data-{server}" if back else f"data-{(server + 1) % SERVERS}"
            known = {"member": f"data-{server}", "role": "data", "reason": "lease expired"}
            yield line(after_ms, "node_joined" if back else "node_left", **known)
            slots = range(CLUSTER_SLOTS) if epoch == 1 else range(server, CLUSTER_SLOTS, SERVERS // 2)
            held = {"leader": here, "leader_epoch": epoch, "followers": [f"data-{(server + 2) % SERVERS}"]}
            moved = {"kind": "leader", "source": None, "target": here, "reason": f"data-{server} left"}
            changed, moves = ([{"slot": slot, **each} for slot in slots] for each in (held, moved))
            yield line(after_ms + 10, "table", epoch=epoch, term=1, changed=changed, moves=moves)


def hash_of(rows: list[dict[str, object]]) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(rows, sort_keys=True, default=str).encode()).hexdigest()


if __name__ == "__main__":
    main()
