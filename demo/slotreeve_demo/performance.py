"""A whole demonstration: the names, a cluster of processes, the stage on it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from slotreeve_client.tools import open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster

from slotreeve_demo.names import names_from, names_in, source_files
from slotreeve_demo.stage import DemoOutcome, DemoPlan, DemoStage, ReportProgress


def service_names(file: Path | None, report_progress: ReportProgress) -> list[str]:
    """The names in ``file``, or those of every module and class of this Python.

    Raises:
        ConfigError: the file cannot be read, or a line of it is not the name of a service.
    """
    if file is not None:
        return names_from(file)
    sources = source_files()
    found: dict[str, None] = {}
    for number, (root, source) in enumerate(sources, 1):
        found.update(dict.fromkeys(names_in(root, source)))
        report_progress("reading the names of modules and classes", number, len(sources))
    return list(found)


async def perform(
    services: Sequence[str], plan: DemoPlan, size: ClusterSize, report_progress: ReportProgress
) -> DemoOutcome:
    """Start a cluster, play the demonstration on it, stop the cluster.

    Raises:
        RequestTimeout: something did not happen within a generous time; the message names it.
    """
    with tempfile.TemporaryDirectory(prefix="slotreeve-demo-") as directory:
        cluster = LocalCluster(Path(directory), size)
        transport = open_transport(cluster.transport)
        try:
            report_progress(f"starting {size}", 0, 1)
            with cluster:
                await cluster.ready(transport)
                return await DemoStage(cluster, transport, services, plan, report_progress).play()
        finally:
            await transport.close()
