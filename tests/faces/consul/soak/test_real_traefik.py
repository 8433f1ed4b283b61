"""A real Traefik discovers by its Consul catalogue provider, through two gateways behind HAProxy."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from slotreeve_harness.free_ports import free_address

from tests.faces.programs import Program, program
from tests.faces.whoever_is_killed import SERVICE, Discovery, Seen, follow_whoever_is_killed

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def traefik(directory: Path, discovers: str) -> Discovery:
    admin = free_address()
    flags = [
        f"--providers.consulcatalog.endpoint.address={discovers}",
        "--providers.consulcatalog.refreshInterval=1s",
        "--providers.consulcatalog.defaultRule=Host(`{{ normalize .Name }}`)",
        f"--entrypoints.traefik.address={admin}",
        f"--entrypoints.web.address={free_address()}",
        "--api.insecure=true",
        "--global.checknewversion=false",
        "--global.sendanonymoususage=false",
    ]
    running = Program(["traefik", *flags], directory / "traefik.log")
    return Discovery(running, lambda: servers_of(admin), has_zones=False)


def servers_of(address: str) -> Seen:
    """The servers that it would send requests to now; none while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}/api/http/services?per_page=100", timeout=5) as answer:
            services = json.load(answer)
    except (OSError, urllib.error.URLError):
        return {}
    wanted = SERVICE.replace(".", "-").lower()
    return {
        server["url"].removeprefix("http://"): ""
        for service in services
        if service["name"].lower().startswith(wanted)
        for server in service["loadBalancer"]["servers"]
    }


def test_traefik_follows_every_change_whoever_is_killed(tmp_path: Path) -> None:
    for name in ("traefik", "haproxy"):
        program(name)
    asyncio.run(follow_whoever_is_killed(tmp_path, "consul", lambda address, _: traefik(tmp_path, address)))
