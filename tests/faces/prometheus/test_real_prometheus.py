"""A real Prometheus discovers through two gateways behind HAProxy."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from slotreeve_harness.free_ports import free_address

from tests.faces.programs import Program, program
from tests.faces.whoever_is_killed import SERVICE, Discovery, Seen, follow_whoever_is_killed

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


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


def prometheus(directory: Path, discovery: dict[str, object]) -> Discovery:
    listens = free_address()
    file = directory / "prometheus.yml"
    job = {"job_name": "registry", **discovery}
    file.write_text(json.dumps({"global": {"scrape_interval": "1h"}, "scrape_configs": [job]}))
    flags = [
        f"--config.file={file}",
        f"--web.listen-address={listens}",
        f"--storage.tsdb.path={directory}/tsdb",
    ]
    return Discovery(Program(["prometheus", *flags], directory / "prometheus.log"), lambda: targets_of(listens))


def targets_of(address: str) -> Seen:
    """Its targets now; none while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/targets?state=active", timeout=5) as answer:
            found = json.load(answer)["data"]["activeTargets"]
    except (OSError, urllib.error.URLError):
        return {}
    return {target["labels"]["instance"]: target["labels"].get("zone", "") for target in found}


@pytest.mark.parametrize(("face", "discovery"), [("prometheus", by_http), ("eureka", by_eureka)])
def test_prometheus_follows_every_change_whoever_is_killed(
    tmp_path: Path, face: str, discovery: Callable[[str], dict[str, object]]
) -> None:
    for name in ("prometheus", "haproxy"):
        program(name)
    asyncio.run(follow_whoever_is_killed(tmp_path, face, lambda at, _: prometheus(tmp_path, discovery(at))))
