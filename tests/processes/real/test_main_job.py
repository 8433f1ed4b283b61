"""Commands that run whole clusters of processes, as users run them. Bounds are generous multiples of the figures."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes


def slotreeve(*arguments: str, seconds: float = 300.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.timed
@pytest.mark.timeout(300)
def test_the_demo_survives_three_kills_with_nothing_missing_and_nothing_stale(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("# services\n" + "\n".join(f"com.example.shop.Service{number}" for number in range(2_000)))
    done = slotreeve("demo", "--names", str(names), "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["held"]
    assert (summary["missing"], summary["stale"], summary["vanished"]) == ([], [], [])
    assert (summary["over_rest"] >= 500, summary["different_over_rest"]) == (True, [])
    assert summary["services"] == 2_000
    assert summary["publishes"] >= 10_000
    assert set(summary["failover_ms"]) == {"meta leader", "data server", "session server"}
    assert summary["latency_ms"]["count"] > 500


def test_a_names_file_that_holds_no_name_is_an_error(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("\n#nothing\n")
    done = slotreeve("demo", "--names", str(names))
    assert done.returncode == 2
    assert f"{names}: holds no name" in done.stderr


def test_a_cluster_of_processes_runs_until_it_is_asked_to_stop_and_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "slotreeve_cli", "cluster", "--directory", str(tmp_path / "cluster")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("export "):
                break
        exports = dict(pair.split("=", 1) for pair in shlex.split(lines[-1].removeprefix("export ")))
        pids = [int(line.split()[-1]) for line in lines if " process " in line]
        assert len(pids) == 9, "three meta, three data, two session servers and a gateway"
        done = subprocess.run(
            [sys.executable, "-m", "slotreeve_cli", "members", "-o", "json"],
            capture_output=True,
            text=True,
            env=os.environ | exports,
            check=False,
        )
        assert sorted(row["name"] for row in json.loads(done.stdout)) == [
            "data-1",
            "data-2",
            "data-3",
            "meta-1",
            "meta-2",
            "meta-3",
            "session-1",
            "session-2",
        ]
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
