"""Clients of Consul and Eureka for Node, as programs of a test."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.faces.programs import NODE_MODULES, Program, program
from tests.faces.whoever_is_killed import SERVICE, Discovery, Seen, follow_whoever_is_killed

SCRIPT = Path(__file__).parent / "node" / "follow.cjs"


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


def follow_with_node(directory: Path, kind: str) -> None:
    """A client of this kind discovers through two gateways behind HAProxy, whoever is killed."""
    for name in ("node", "haproxy"):
        program(name)
    face = kind.partition("-")[0]
    asyncio.run(follow_whoever_is_killed(directory, face, lambda address, _: node_client(directory, kind, address)))
