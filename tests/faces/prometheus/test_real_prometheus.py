"""A real Prometheus discovers through two gateways behind HAProxy; gateway, session server and leader are killed."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from slotreeve.model.data_info import DataInfo
from slotreeve_client.administration import cluster_view
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster, free_address
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.instance import Instance

from tests.faces.programs import Program, haproxy, program

SERVICE = "com.example.Scraped"
PATIENCE_SECONDS = 60.0
LEASE_SECONDS = 15.0
"""Prometheus takes over what it discovered every five seconds."""
pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def prometheus(directory: Path, listens: str, discovers: str) -> Program:
    (directory / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1h"},
                "scrape_configs": [
                    {
                        "job_name": "registry",
                        "http_sd_configs": [
                            {"url": f"http://{discovers}/prometheus/targets/{SERVICE}", "refresh_interval": "1s"}
                        ],
                        "relabel_configs": [
                            {"source_labels": ["__meta_slotreeve_zone"], "target_label": "zone"},
                            {"source_labels": ["__meta_slotreeve_enabled"], "regex": "true", "action": "keep"},
                        ],
                    }
                ],
            }
        )
    )
    return Program(
        [
            "prometheus",
            f"--config.file={directory}/prometheus.yml",
            f"--web.listen-address={listens}",
            f"--storage.tsdb.path={directory}/tsdb",
        ],
        directory / "prometheus.log",
    )


def targets_of(address: str) -> dict[str, str]:
    """Zone of each target by its address, as Prometheus has them now; empty while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/targets?state=active", timeout=5) as answer:
            found = json.load(answer)["data"]["activeTargets"]
    except (OSError, urllib.error.URLError):
        return {}
    return {target["labels"]["instance"]: target["labels"].get("zone", "") for target in found}


async def until_targets_are(address: str, wanted: dict[str, str], logs: Program) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    while (found := await loop.run_in_executor(None, targets_of, address)) != wanted:
        assert loop.time() < deadline, f"Prometheus has {found}, not {wanted}\n{logs.said()}"
        await asyncio.sleep(0.2)


def test_prometheus_follows_every_change_whoever_is_killed(tmp_path: Path) -> None:
    for name in ("prometheus", "haproxy"):
        program(name)
    asyncio.run(_discover(tmp_path))


async def _discover(directory: Path) -> None:
    cluster = LocalCluster(directory, ClusterSize(meta=1, data=3, session=2, gateway=2))
    transport = open_transport()
    front, scraper = free_address(), free_address()
    with (
        cluster,
        haproxy(directory, front, cluster.gateway_addresses),
        prometheus(directory, scraper, front) as logs,
    ):
        await cluster.ready(transport)
        wanted: dict[str, str] = {}
        async with open_client(cluster.session_addresses, cluster.name) as client:

            async def register(number: int, ttl_seconds: float = 600.0) -> None:
                instance = Instance(f"10.0.0.{number}", 80, zone=f"zone-{number}")
                payload = encode_instance(instance)
                await client.leases.register(SERVICE, instance.id, payload, ttl_seconds=ttl_seconds)
                wanted[instance.id] = instance.zone

            await register(1)
            await until_targets_are(scraper, wanted, logs)

            cluster.servers["gateway-1"].kill()
            await register(2)
            await until_targets_are(scraper, wanted, logs)

            cluster.servers["session-1"].kill()
            await register(3)
            await until_targets_are(scraper, wanted, logs)

            view = await cluster_view(transport, cluster.name, cluster.meta_addresses.values())
            slot = cluster.slot_function().slot_of(DataInfo.parse(SERVICE).id)
            leader = view.table.slots[slot].leader
            assert leader is not None
            cluster.servers[leader].kill()
            await register(4)
            await until_targets_are(scraper, wanted, logs)

            await register(5, ttl_seconds=LEASE_SECONDS)
            await until_targets_are(scraper, wanted, logs)
            del wanted["10.0.0.5:80"]
            await until_targets_are(scraper, wanted, logs)
    await transport.close()
