"""A real Envoy discovers through two gateways behind HAProxy."""

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


def socket_address(address: str) -> dict[str, object]:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def envoy(directory: Path, discovers: str) -> Discovery:
    admin = free_address()
    source = {
        "api_type": "REST",
        "transport_api_version": "V3",
        "cluster_names": ["gateway"],
        "refresh_delay": "0.2s",
        "request_timeout": "2s",
    }
    gateway = {
        "name": "gateway",
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": "gateway",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket_address(discovers)}}]}],
        },
    }
    discovered = {
        "name": "discovered",
        "type": "EDS",
        "connect_timeout": "1s",
        "eds_cluster_config": {
            "service_name": SERVICE,
            "eds_config": {"resource_api_version": "V3", "api_config_source": source},
        },
    }
    file = directory / "envoy.json"
    file.write_text(
        json.dumps(
            {
                "node": {"id": "test", "cluster": "test"},
                "admin": {"address": socket_address(admin)},
                "static_resources": {"clusters": [gateway, discovered]},
            }
        )
    )
    flags = ["-c", str(file), "--concurrency", "1", "--disable-hot-restart"]
    return Discovery(Program(["envoy", *flags], directory / "envoy.log"), lambda: endpoints_of(admin))


def endpoints_of(address: str) -> Seen:
    """The endpoints that it would use now; none while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}/clusters?format=json", timeout=5) as answer:
            clusters = json.load(answer)["cluster_statuses"]
    except (OSError, urllib.error.URLError):
        return {}
    found: Seen = {}
    for cluster in clusters:
        for host in cluster.get("host_statuses", []) if cluster["name"] == "discovered" else []:
            at = host["address"]["socket_address"]
            assert host["health_status"]["eds_health_status"] == "HEALTHY"
            found[f"{at['address']}:{at['port_value']}"] = host["locality"]["zone"]
    return found


def test_envoy_follows_every_change_whoever_is_killed(tmp_path: Path) -> None:
    for name in ("envoy", "haproxy"):
        program(name)
    asyncio.run(follow_whoever_is_killed(tmp_path, "envoy", lambda address, _: envoy(tmp_path, address)))
