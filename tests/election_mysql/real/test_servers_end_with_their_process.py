"""A database that a test has started ends when the test's process is killed, and its files go."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from slotreeve_chaos.sql_servers import MariaDbServer, PostgresServer, SqlServer

from tests.election_mysql.conftest import BACKENDS, shared_server

CODE = """
import time
from slotreeve_chaos.sql_servers import MariaDbServer, PostgresServer
server = {name}()
server.start()
print(server._process.pid, server._directory, flush=True)
{then}
time.sleep(100)
"""
PATIENCE_SECONDS = 30.0


@pytest.mark.parametrize("then", ["", "server.pause()"], ids=["that runs", "that stands still"])
@pytest.mark.parametrize("kind", [PostgresServer, MariaDbServer])
def test_a_server_ends_with_a_process_that_is_killed(kind: type[SqlServer], then: str) -> None:
    shared_server(next(name for name, backend in BACKENDS.items() if backend.server is kind))  # its programs are there
    code = CODE.format(name=kind.__name__, then=then)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, directory = process.stdout.readline().split()
        server = psutil.Process(int(pid))
        family = [server, *server.children(recursive=True)]
        process.kill()
    _, alive = psutil.wait_procs(family, PATIENCE_SECONDS)
    assert not [left for left in alive if left.status() != psutil.STATUS_ZOMBIE]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while Path(directory).exists():
        assert time.monotonic() < deadline, f"{directory} is still there"
        time.sleep(0.05)
