"""What servers keep on their disks is for their account only."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from slotreeve_client.tools import asked, open_client, run_async
from slotreeve_harness.processes import ClusterSize, LocalCluster

pytestmark = pytest.mark.processes
PATIENCE_SECONDS = 30.0
PAYLOAD = b"a payload that is nobody's business"
FOR_OTHERS = {"trusted.toml"}
"""Public keys."""


def is_open_to_others(path: Path, top: Path) -> bool:
    """Whether another account can read a file: neither it nor a directory above it keeps that account out."""
    if not path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return False
    between = [parent for parent in path.parents if parent.is_relative_to(top)]
    return all(parent.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for parent in between)


def test_no_other_account_reads_what_servers_keep_but_logs_and_public_keys(tmp_path: Path) -> None:
    top = tmp_path / "cluster"
    top.mkdir(mode=0o755)
    cluster = LocalCluster(top, ClusterSize(1, 1, 1), {"history.directory": str(top / "history")})
    cluster.use_keys()
    before = os.umask(0)  # nothing but the program keeps files private
    try:
        with cluster:

            async def publish() -> None:
                await asked(cluster.ready)
                async with open_client(cluster.session_addresses, cluster.name) as client:
                    client.publish("com.example.Private", PAYLOAD)
                    await client.flush()

            run_async(publish())
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not any(PAYLOAD in path.read_bytes() for path in (top / "history").rglob("*") if path.is_file()):
                assert time.monotonic() < deadline, "the history has not been written"
                time.sleep(0.1)
            files = [path for path in top.rglob("*") if path.is_file() and path.suffix != ".log"]
            names = {path.name for path in files}
            found = [str(path.relative_to(top)) for path in files if is_open_to_others(path, top)]
    finally:
        os.umask(before)
    assert len(names) > 5
    assert [name for name in found if Path(name).name not in FOR_OTHERS] == []
