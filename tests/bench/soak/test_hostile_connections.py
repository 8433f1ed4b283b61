"""Hostile connections beside a cluster with keys: nobody comes in, nothing changes, clients are served."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from slotreeve.errors import ClientError
from slotreeve_bench.hostile import HostilePlan, measure_hostile
from slotreeve_bench.suite import BenchPlan, measure
from slotreeve_harness.measurements import Measurement
from slotreeve_harness.processes import ClusterSize, LocalCluster

pytestmark = pytest.mark.processes
KINDS = {"garbage", "half open", "slow", "oversized", "forged handshake", "stranger", "without a key"}


def test_every_kind_is_kept_out_while_clients_publish() -> None:
    plan = BenchPlan(ClusterSize(1, 2, 2), hostile=HostilePlan(28, rounds=1, seconds=2.0, burst=2_000))
    figures = cast("dict[str, Any]", asyncio.run(measure(Measurement.HOSTILE, plan, lambda step: None)))
    assert figures["let_in"] == 0
    assert figures["attempts"].keys() == KINDS
    back = {kind for kind, attempts in figures["attempts"].items() if attempts > 28 / len(KINDS)}
    assert back == KINDS - {"half open", "slow"}  # these two stay for longer than the round
    assert figures["refused_keys"] > 0
    assert figures["ratios"].keys() == {"p50_ms", "p99_ms", "publishes_per_second"}


def test_a_cluster_without_keys_is_not_measured(tmp_path: Any) -> None:
    cluster = LocalCluster(tmp_path, ClusterSize(1, 1, 1))
    with pytest.raises(ClientError, match="everybody may come in; expected --keys"):
        asyncio.run(measure_hostile(cluster, HostilePlan(), lambda step: None))
