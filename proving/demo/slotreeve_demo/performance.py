"""A whole demonstration: the names, a cluster of processes, the stage on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slotreeve.errors import RequestTimeout
from slotreeve_client.tools import open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster

from slotreeve_demo.names import names_from, names_in, source_files
from slotreeve_demo.report import all_held
from slotreeve_demo.stage import DemoOutcome, DemoPlan, DemoStage, Keep, ReportProgress

READY_SECONDS = 120.0
"""The cluster has so long to start, on a machine that is busy too."""


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
    services: Sequence[str],
    plan: DemoPlan,
    size: ClusterSize,
    report_progress: ReportProgress,
    directory: Path | None = None,
    keep: Keep | None = None,
) -> DemoOutcome:
    """Start a cluster, play the demonstration on it, await ``keep``, stop the cluster. The logs and the state stay in
    ``directory``; without one they stay only where a check failed.

    Raises:
        RequestTimeout: something did not happen within a generous time; the message names it, and where the logs are.
    """
    kept = directory or Path(tempfile.mkdtemp(prefix="slotreeve-demo-"))
    cluster = LocalCluster(kept, size)
    cluster.use_keys()
    transport = open_transport(cluster.transport)
    try:
        report_progress(f"starting {size}", 0, 1)
        with cluster:
            await cluster.ready(transport, READY_SECONDS)
            outcome = await DemoStage(cluster, transport, services, plan, report_progress).play(keep)
    except RequestTimeout as error:
        raise RequestTimeout(f"{error}; the logs are in {kept}") from None
    finally:
        await transport.close()
    if directory is None and all_held(outcome):
        shutil.rmtree(kept)
    else:
        outcome.directory = str(kept)
    return outcome
