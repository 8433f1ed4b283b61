"""How large the measurements are, and each of them on a fresh cluster."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slotreeve_client.tools import open_transport
from slotreeve_harness.measurements import Measurement
from slotreeve_harness.processes import ClusterSize, LocalCluster

from slotreeve_bench.busy import BusyPlan, measure_busy
from slotreeve_bench.departure import measure_departure
from slotreeve_bench.failover import measure_failover
from slotreeve_bench.fanout import measure_fanout
from slotreeve_bench.herd import HerdPlan, measure_herd
from slotreeve_bench.hostile import HostilePlan, measure_hostile
from slotreeve_bench.large import LargePlan, measure_large
from slotreeve_bench.latency import measure_latency
from slotreeve_bench.lookups import measure_lookups
from slotreeve_bench.restart import measure_rolling_restart
from slotreeve_bench.throughput import measure_throughput


@dataclass(frozen=True)
class BenchPlan:
    """How large the measurements are.

    Attributes:
        rate, seconds: changes a second and length of ``latency``.
        publishers: registrations of ``throughput`` and ``departure``; ``payload``: bytes of each in ``throughput``.
        subscribers: connections of ``fanout``.
        kills: how often ``failover`` kills each kind of process.
        herd: clients of ``herd``, and registrations and subscriptions of each.
        busy: runs of ``busy``. ``large``: sizes of ``large``.
        settings: settings of every server, by dotted key.
        has_keys: every process has a key; with ``hostile`` always.
        hostile: how many connections, and how long.
    """

    size: ClusterSize
    rate: float = 100.0
    seconds: float = 20.0
    publishers: int = 100_000
    payload: int = 200
    subscribers: int = 1_000
    kills: int = 10
    herd: HerdPlan = field(default_factory=HerdPlan)
    busy: BusyPlan = field(default_factory=BusyPlan)
    large: LargePlan = field(default_factory=LargePlan)
    settings: Mapping[str, object] = field(default_factory=dict)
    has_keys: bool = False
    hostile: HostilePlan = field(default_factory=HostilePlan)

    def described(self) -> dict[str, object]:
        """The machine and the cluster, for a report."""
        size, system = self.size, platform.platform()
        return {
            "machine": {"processors": os.cpu_count(), "python": platform.python_version(), "system": system},
            "cluster": {
                "meta": size.meta,
                "data": size.data,
                "session": size.session,
                "settings": dict(self.settings),
                "keys": self.has_keys,
            },
        }


async def measure(measurement: Measurement, plan: BenchPlan, report: Callable[[str], None]) -> dict[str, object]:
    """Start a cluster, measure, stop it; the figures by name. ``report`` gets what happens, where it takes long.

    Raises:
        SlotreeveError: the cluster did not start, or something did not happen in time.
    """
    if measurement is Measurement.BUSY:
        return await measure_busy(plan.size, plan.busy, report)  # each run has a cluster of its own
    with tempfile.TemporaryDirectory(prefix="slotreeve-bench-") as directory:
        cluster = LocalCluster(Path(directory), plan.size, dict(plan.settings))
        if plan.has_keys or measurement is Measurement.HOSTILE:
            cluster.use_keys()
        transport = open_transport(cluster.transport)
        try:
            with cluster:
                await cluster.ready(transport)
                return await _on(cluster, measurement, plan, report)
        finally:
            await transport.close()


async def _on(
    cluster: LocalCluster, measurement: Measurement, plan: BenchPlan, report: Callable[[str], None]
) -> dict[str, object]:
    match measurement:
        case Measurement.LATENCY:
            return await measure_latency(cluster, plan.rate, plan.seconds)
        case Measurement.THROUGHPUT:
            return await measure_throughput(cluster, plan.publishers, plan.payload)
        case Measurement.FANOUT:
            return await measure_fanout(cluster, plan.subscribers)
        case Measurement.LOOKUPS:
            return await measure_lookups(cluster)
        case Measurement.FAILOVER:
            return await measure_failover(cluster, plan.kills)
        case Measurement.RESTART:
            return await measure_rolling_restart(cluster)
        case Measurement.DEPARTURE:
            return await measure_departure(cluster, plan.publishers)
        case Measurement.HERD:
            return await measure_herd(cluster, plan.herd, report)
        case Measurement.LARGE:
            return await measure_large(cluster, plan.large, report)
        case Measurement.HOSTILE:
            return await measure_hostile(cluster, plan.hostile, report)
        case Measurement.BUSY:
            raise AssertionError("it starts clusters of its own")
