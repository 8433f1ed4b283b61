"""Measurements of whole clusters of processes, with bounds of time."""

from __future__ import annotations

import json

import pytest

from tests.processes.real.test_main_job import slotreeve

pytestmark = pytest.mark.processes


@pytest.mark.timed
@pytest.mark.timeout(300)
def test_killed_processes_are_made_up_for_within_a_few_times_what_is_promised() -> None:
    done = slotreeve("bench", "failover", "--kills", "3", "-o", "json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["failover"]
    assert figures["meta_leader_ms"]["p50"] < 5 * 500
    assert figures["data_server_ms"]["max"] < 5 * 2_000
    assert figures["session_server_ms"]["max"] < 5 * 1_000
    assert figures["client_ms"]["max"] < 5 * 500
    assert figures["vanished_meanwhile"] == 0


@pytest.mark.timed
@pytest.mark.timeout(300)
def test_bench_measures_latency_throughput_fanout_and_lookups() -> None:
    done = slotreeve(
        "bench",
        "latency",
        "throughput",
        "fanout",
        "lookups",
        "--seconds",
        "3",
        "--publishers",
        "10000",
        "--subscribers",
        "40",
        "-o",
        "json",
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["latency"]["latency_ms"]["count"] == 300
    assert figures["latency"]["latency_ms"]["p50"] < 15
    assert figures["throughput"]["publishes_per_second"] > 3_000
    assert figures["throughput"]["data_server_bytes_per_publisher"] < 12_000
    assert figures["fanout"]["until_last_ms"]["p50"] < 500
    assert figures["lookups"]["lookups_per_second"] > 500
