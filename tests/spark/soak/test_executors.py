"""Executors as processes of their own: plugins and closures reach them, and one that is killed changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import QUICK

pytestmark = pytest.mark.spark
CLUSTER = "local-cluster[2,1,1024]"
KEYS = 2_000_000
# A session of its own costs many seconds, so that both tests look at what one did.
PROGRAM = """
import dataclasses, json, pathlib, sys
import psutil
from slotreeve_cli.main import main
from slotreeve_spark.compare.keys import open_keys
from slotreeve_spark.compare.slot_functions import SlotFunctionQuestion, count
from slotreeve_spark.session import open_session

master, conf, number, marker = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4])
session = open_session(master, conf)
keys = open_keys(session, f"generated:{number}")
blocks = keys.expand

def expand(batch):  # the first task that has counted some blocks kills its executor
    for done, array in enumerate(blocks(batch)):
        if done == 2 and not marker.exists():
            executor = next(process for process in psutil.Process().parents() if process.name() == "java")
            marker.write_text(" ".join(executor.cmdline()))
            executor.kill()
        yield array

counts = count(dataclasses.replace(keys, expand=expand), SlotFunctionQuestion(("crc32c",), (64,)))
rows = counts.where("measure = 'counted'").collect()
print(json.dumps({"killed": marker.read_text(), "counts": [row.value for row in rows]}), flush=True)
sys.argv = ["slotreeve", *sys.argv[5:]]
main()  # in the session there is
"""


@pytest.fixture(scope="module")
def reported(java: None, example_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """What the program printed: about the killing, and about the comparison with the shipped wheel."""
    directory = tmp_path_factory.mktemp("cluster")
    compare = [
        "spark",
        "compare",
        "balancers",
        "--balancers",
        "round_table,even",
        "--traces",
        "scale out by one",
        "--slots",
        "16",
        "--servers",
        "4",
        "--seeds",
        "2",
        "--plugin-wheel",
        str(example_wheel),
        "--master",
        CLUSTER,
        "--out",
        str(directory / "out"),
        "-o",
        "json",
    ]
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        CLUSTER,
        json.dumps(QUICK),
        str(KEYS),
        str(directory / "killed"),
        *compare,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_killing_an_executor_in_the_middle_changes_no_count(reported: list[dict[str, object]]) -> None:
    assert "CoarseGrainedExecutorBackend" in str(reported[0]["killed"])
    counts = reported[0]["counts"]
    assert isinstance(counts, list)
    assert (len(counts), sum(counts)) == (64, KEYS)


def test_a_shipped_wheel_is_compared_on_executors_that_do_not_have_it(reported: list[dict[str, object]]) -> None:
    assert reported[1]["disqualified"] == []
    tables = reported[1]["tables"]
    assert isinstance(tables, dict)
    assert {row["competitor"] for row in tables["summary"]} == {"even", "round_table + default"}
    assert Path(str(reported[1]["report"])).exists()
