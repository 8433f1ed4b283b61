"""A real Prometheus discovers through two gateways: behind HAProxy, or as its name servers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest
from slotreeve_harness.free_ports import free_address

from tests.faces.name_servers import RESOLV_CONF, free_name_servers, with_name_servers
from tests.faces.programs import Program, program
from tests.faces.whoever_is_killed import SERVICE, Discovery, Seen, follow_whoever_is_killed

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
ADDRESS_NAME = ".addr.slotreeve"


def by_http(address: str) -> dict[str, object]:
    return {
        "http_sd_configs": [{"url": f"http://{address}/prometheus/targets/{SERVICE}", "refresh_interval": "1s"}],
        "relabel_configs": [{"source_labels": ["__meta_slotreeve_zone"], "target_label": "zone"}],
    }


def by_eureka(address: str) -> dict[str, object]:
    return {
        "eureka_sd_configs": [{"server": f"http://{address}/eureka", "refresh_interval": "1s"}],
        "relabel_configs": [
            {"source_labels": ["__meta_eureka_app_instance_metadata_zone"], "target_label": "zone"},
            {
                "source_labels": ["__meta_eureka_app_instance_ip_addr", "__meta_eureka_app_instance_port"],
                "separator": ":",
                "target_label": "__address__",
            },
        ],
    }


BY_DNS: dict[str, object] = {
    "dns_sd_configs": [{"names": [f"_{SERVICE}._tcp.service.slotreeve"], "type": "SRV", "refresh_interval": "1s"}]
}


def prometheus(directory: Path, discovery: dict[str, object], name_servers: Sequence[str] = ()) -> Discovery:
    """``name_servers``: it asks these, and not those of the machine."""
    listens = free_address()
    file = directory / "prometheus.yml"
    job = {"job_name": "registry", **discovery}
    file.write_text(json.dumps({"global": {"scrape_interval": "1h"}, "scrape_configs": [job]}))
    command = [
        program("prometheus"),
        f"--config.file={file}",
        f"--web.listen-address={listens}",
        f"--storage.tsdb.path={directory}/tsdb",
    ]
    if name_servers:
        command = with_name_servers(command, directory, name_servers)
    running = Program(command, directory / "prometheus.log")
    return Discovery(running, lambda: targets_of(listens), has_zones=not name_servers)


def targets_of(address: str) -> Seen:
    """Its targets now; none while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/targets?state=active", timeout=5) as answer:
            found = json.load(answer)["data"]["activeTargets"]
    except (OSError, urllib.error.URLError):
        return {}
    return {without_name(target["labels"]["instance"]): target["labels"].get("zone", "") for target in found}


def without_name(target: str) -> str:
    """The address that is written in the name which an SRV record points to."""
    host, _, port = target.rpartition(":")
    if not host.endswith(ADDRESS_NAME):
        return target
    return f"{ip_address(bytes.fromhex(host.removesuffix(ADDRESS_NAME)))}:{port}"


@pytest.mark.parametrize(("face", "discovery"), [("prometheus", by_http), ("eureka", by_eureka)])
def test_prometheus_follows_every_change_whoever_is_killed(
    tmp_path: Path, face: str, discovery: Callable[[str], dict[str, object]]
) -> None:
    for name in ("prometheus", "haproxy"):
        program(name)
    asyncio.run(follow_whoever_is_killed(tmp_path, face, lambda at, _: prometheus(tmp_path, discovery(at))))


def test_prometheus_follows_every_change_by_dns_whoever_is_killed(tmp_path: Path) -> None:
    for name in ("prometheus", "haproxy"):
        program(name)
    hosts = free_name_servers(tmp_path, 2)
    asyncio.run(
        follow_whoever_is_killed(
            tmp_path, "dns", lambda _, cluster: prometheus(tmp_path, BY_DNS, hosts), name_servers=hosts
        )
    )


def test_other_name_servers_are_those_of_one_program_only(tmp_path: Path) -> None:
    [host] = free_name_servers(tmp_path, 1)
    before = RESOLV_CONF.read_text(), mounts()
    command = with_name_servers(["sh", "-c", f"cat {RESOLV_CONF}; read -r _"], tmp_path, [host])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"nameserver {host}\n"
        assert (RESOLV_CONF.read_text(), mounts()) == before
    assert (RESOLV_CONF.read_text(), mounts()) == before


def mounts() -> list[str]:
    """What is mounted at /etc/resolv.conf; in a container that may be something already."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(RESOLV_CONF) in line]
