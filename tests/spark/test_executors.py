"""Executors as processes of their own: plugins and closures reach them, and one that is killed changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
CLUSTER = "local-cluster[2,1,1024]"
KILLING = """
import sys, threading, time
import psutil
from slotreeve_spark.compare.keys import open_keys
from slotreeve_spark.compare.slot_functions import Asked, count
from slotreeve_spark.session import open_session

session = open_session(sys.argv[1], {})
keys, asked = open_keys(session, "generated:4_000_000"), Asked(("crc32c",), (64,))
killed = []

def kill():
    time.sleep(1.0)
    tracker = session.sparkContext.statusTracker()
    while not tracker.getActiveStageIds():
        time.sleep(0.02)
    for process in psutil.Process().children(recursive=True):
        if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
            process.kill()
            killed.append(process.pid)
            return

thread = threading.Thread(target=kill)
thread.start()
rows = count(keys, asked).where("measure = 'counted'").orderBy("slot").collect()
thread.join()
print(len(killed), [row.value for row in rows])
session.stop()
"""


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def test_a_shipped_wheel_is_compared_on_executors_that_do_not_have_it(
    java: None, example_wheel: Path, tmp_path: Path
) -> None:
    told = json.loads(
        run(
            "-m", "slotreeve_cli", "spark", "compare", "balancers", "--balancers", "round_table,even",
            "--traces", "scale out by one", "--slots", "16", "--servers", "4", "--seeds", "2",
            "--plugin-wheel", str(example_wheel), "--master", CLUSTER, "--out", str(tmp_path / "out"), "-o", "json",
        )
    )  # fmt: skip
    assert told["failed"] == []
    assert {row["competitor"] for row in told["tables"]["summary"]} == {"even", "round_table + default"}
    assert Path(told["report"]).exists()


def test_killing_an_executor_in_the_middle_changes_no_count(java: None) -> None:
    killed, _, counts = run("-c", KILLING, CLUSTER).partition(" ")
    assert killed == "1", "nothing was killed, so nothing was tested"
    assert sum(json.loads(counts)) == 4_000_000


def test_the_command_ends_with_the_errors_own_exit_code(java: None, tmp_path: Path) -> None:
    command = ["-m", "slotreeve_cli", "spark", "compare", "slot-functions", "--functions", "crc32", "--out", "x"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "did you mean 'crc32c'" in done.stderr
