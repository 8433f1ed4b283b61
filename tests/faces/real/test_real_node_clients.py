"""Clients of Consul and Eureka for Node discover through two gateways behind HAProxy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.faces.programs import NODE_MODULES, Program, program
from tests.faces.whoever_is_killed import SERVICE, Discovery, Seen, follow_whoever_is_killed

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
SCRIPT = Path(__file__).parents[1] / "node" / "follow.cjs"


def node_client(directory: Path, kind: str, discovers: str) -> Discovery:
    host, _, port = discovers.rpartition(":")
    log = directory / "node.log"
    running = Program(["node", str(SCRIPT), kind, host, port, SERVICE], log, {"NODE_PATH": str(NODE_MODULES)})
    return Discovery(running, lambda: last_seen(log))


def last_seen(log: Path) -> Seen:
    """What it printed last; nothing where it has printed nothing yet."""
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")] if log.exists() else []
    seen: Seen = json.loads(lines[-1]) if lines else {}
    return seen


@pytest.mark.parametrize("kind", ["consul", "eureka", "eureka-delta"])
def test_a_client_for_node_follows_every_change_whoever_is_killed(tmp_path: Path, kind: str) -> None:
    for name in ("node", "haproxy"):
        program(name)
    face = kind.partition("-")[0]
    asyncio.run(follow_whoever_is_killed(tmp_path, face, lambda address, _: node_client(tmp_path, kind, address)))
