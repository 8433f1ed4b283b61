"""A real Prometheus discovers through two gateways behind HAProxy."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from slotreeve_harness.processes import free_address

from tests.faces.programs import Program, program
from tests.faces.whoever_is_killed import SERVICE, Discovery, Seen, follow_whoever_is_killed

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def prometheus(directory: Path, discovers: str) -> Discovery:
    listens = free_address()
    discovery = {"url": f"http://{discovers}/prometheus/targets/{SERVICE}", "refresh_interval": "1s"}
    job = {
        "job_name": "registry",
        "http_sd_configs": [discovery],
        "relabel_configs": [
            {"source_labels": ["__meta_slotreeve_zone"], "target_label": "zone"},
            {"source_labels": ["__meta_slotreeve_enabled"], "regex": "true", "action": "keep"},
        ],
    }
    file = directory / "prometheus.yml"
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


def test_prometheus_follows_every_change_whoever_is_killed(tmp_path: Path) -> None:
    for name in ("prometheus", "haproxy"):
        program(name)
    asyncio.run(follow_whoever_is_killed(tmp_path, "prometheus", lambda address: prometheus(tmp_path, address)))
