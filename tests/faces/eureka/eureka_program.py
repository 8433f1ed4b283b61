"""A program with py-eureka-client: it registers and renews, or prints what it sees; see ``ClientScript``."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from py_eureka_client.eureka_client import EurekaClient  # type: ignore[import-untyped]
from py_eureka_client.logger import set_level  # type: ignore[import-untyped]

POLL_SECONDS = 0.05


def provide(servers: str, service: str, instance_id: str) -> None:
    """Register, and renew as long as it lives."""
    client = EurekaClient(
        eureka_server=servers,
        app_name=service,
        instance_id=instance_id,
        instance_ip="10.0.0.1",
        instance_host="shop.example",
        instance_port=8080,
        renewal_interval_in_secs=1,
        duration_in_secs=6,
        metadata={"version": "1.2"},
        should_discover=False,
    )
    asyncio.run(client.start())
    while True:
        time.sleep(600)


def follow(servers: str, service: str) -> None:
    """Print the ids at each change."""
    client = EurekaClient(eureka_server=servers, should_register=False, renewal_interval_in_secs=1)
    asyncio.run(client.start())
    before: list[str] | None = None
    while True:
        found = client.applications.get_application(service)
        ids = sorted(one.instanceId for one in found.up_instances) if found else []
        if ids != before:
            print("sees", json.dumps(ids))
        before = ids
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    set_level("DEBUG")  # at which it says that it has registered
    kind, addresses, *more = sys.argv[1:]
    urls = ",".join(f"http://{address}/eureka/" for address in addresses.split(","))
    (provide if kind == "provide" else follow)(urls, *more)
