"""Unmodified clients of Eureka (py-eureka-client) against processes: gateways that die, a provider that dies."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from py_eureka_client import eureka_client  # type: ignore[import-untyped]
from py_eureka_client.eureka_basic import (  # type: ignore[import-untyped]
    Applications,
    get_applications,
    get_delta,
)
from slotreeve.model.nodes import Role
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer, ServerProcess

pytestmark = pytest.mark.processes

PATIENCE = 40.0
DURATION = 6
ENDED_SECONDS = DURATION + 3
PROVIDER = """
import asyncio, sys, time
from py_eureka_client.eureka_client import EurekaClient
client = EurekaClient(
    eureka_server=sys.argv[1], app_name="shop", instance_id=sys.argv[2], instance_ip="10.0.0.1",
    instance_host="shop.example", instance_port=8080, renewal_interval_in_secs=1, duration_in_secs=6,
    metadata={"version": "1.2"})
asyncio.run(client.start())
time.sleep(600)
"""


def gateway(directory: Path, number: int, session: str) -> ServerProcess:
    """A gateway process, not started."""
    address = free_address()
    settings = {"gateway.sessions": session, "gateway.listen": address, "face.use": "eureka", "node.name": f"g{number}"}
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "slotreeve_cli", "gateway", "run", "--until-eof", *flags]
    return ServerProcess(Role.GATEWAY, f"g{number}", address, command, directory / f"g{number}.log")


def url(of: ServerProcess) -> str:
    return f"http://{of.address}/eureka/"


@contextmanager
def provider(directory: Path, servers: str, instance_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that registers and renews as long as it lives; ended by SIGKILL."""
    with (directory / f"{instance_id}.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", PROVIDER, servers, instance_id], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def ids(applications: Applications) -> list[str]:
    return sorted(one.instanceId for one in applications.get_application("shop").up_instances)


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return
        except (OSError, eureka_client.EurekaServerConnectionException, httpx.HTTPError):
            pass
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


def test_a_client_registers_is_seen_survives_gateways_and_its_lease_ends_with_it(tmp_path: Path) -> None:
    with DevServer() as dev, ExitStack() as stack:
        gateways = [gateway(tmp_path, number, dev.session_address) for number in (1, 2)]
        for one in gateways:
            one.start()
            stack.callback(one.stop)

        def seen(one: ServerProcess) -> list[str]:
            whole = asyncio.run(get_applications(url(one)))
            delta = asyncio.run(get_delta(url(one)))
            after = asyncio.run(get_applications(url(one)))
            assert ids(delta) in (ids(whole), ids(after)), "the lease may end between two requests"
            return ids(whole)

        with provider(tmp_path, ",".join(map(url, gateways)), "shop-1"):
            for one in gateways:
                until(lambda one=one: seen(one) == ["shop-1"], f"{one.name} shows it")  # type: ignore[misc]
            found = asyncio.run(get_applications(url(gateways[0]))).get_application("SHOP").instances[0]
            assert (found.ipAddr, found.hostName, found.port.port) == ("10.0.0.1", "shop.example", 8080)
            assert found.metadata["version"] == "1.2"
            for victim, other in (gateways, reversed(gateways)):
                victim.kill()
                end = time.monotonic() + ENDED_SECONDS
                while time.monotonic() < end:
                    assert seen(other) == ["shop-1"]
                    time.sleep(0.2)
                victim.start()
                until(lambda victim=victim: seen(victim) == ["shop-1"], "it is back")  # type: ignore[misc]
        until(lambda: seen(gateways[0]) == seen(gateways[1]) == [], "its lease has ended", ENDED_SECONDS + 2)
