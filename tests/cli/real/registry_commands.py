"""The command line against a cluster of processes."""

from __future__ import annotations

import os
import subprocess
import sys

from slotreeve_client.tools import open_transport
from slotreeve_harness.processes import LocalCluster


def command(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    asked = {**cluster.tool_environment, "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-m", "slotreeve_cli", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **asked},
        timeout=300,
        check=False,
    )


async def ready(cluster: LocalCluster) -> None:
    """Every server is a member, and every slot is held."""
    transport = open_transport(cluster.transport)
    await cluster.ready(transport)
    await transport.close()
