"""Blocks of the documentation run with a registry."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest
from slotreeve_harness.processes import DevServer

from tests.test_docs import ROOT, blocks


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


def environment(dev: DevServer) -> dict[str, str]:
    return {**os.environ, "SLOTREEVE_SESSION": dev.session_address, "SLOTREEVE_META": dev.meta_address}


@pytest.mark.processes
@pytest.mark.parametrize("source", blocks("python"))
def test_a_python_block_runs(source: str, dev: DevServer) -> None:
    source = source.replace("127.0.0.1:7730", dev.session_address)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("block", blocks("console"))
def test_the_commands_of_a_console_block_run(block: str, dev: DevServer) -> None:
    background: list[subprocess.Popen[str]] = []
    try:
        for line in block.splitlines():
            if not line.startswith("$ slotreeve ") or line == "$ slotreeve dev &":
                continue  # what a command prints; the registry that is already running
            command = [sys.executable, "-m", "slotreeve_cli", *shlex.split(line.removeprefix("$ slotreeve "))]
            if command[-1] == "&":
                process = subprocess.Popen(
                    command[:-1], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(dev)
                )
                background.append(process)
                assert process.stdout is not None
                first = process.stdout.readline()
                assert process.poll() is None, first + process.stdout.read()
                continue
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=300, env=environment(dev), cwd=ROOT, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    finally:
        for process in background:
            process.terminate()
            process.communicate()
