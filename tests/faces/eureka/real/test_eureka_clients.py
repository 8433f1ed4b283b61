"""Unmodified clients of Eureka (py-eureka-client) against processes: servers that die, a provider that dies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from py_eureka_client.eureka_basic import (  # type: ignore[import-untyped]
    Applications,
    get_applications,
    get_delta,
)
from slotreeve_harness.processes import DevServer

from tests.faces.providers_and_followers import SERVICE, ClientScript

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
PROGRAM = ClientScript(Path(__file__).parents[1] / "eureka_program.py")


def ids(applications: Applications) -> list[str]:
    found = applications.get_application(SERVICE)
    return sorted(one.instanceId for one in found.up_instances) if found else []


def test_the_client_reads_what_it_registered_whole_and_as_a_delta(tmp_path: Path) -> None:
    with DevServer("--keys", str(tmp_path / "keys")) as dev:
        url = f"http://{dev.gateway_address}/eureka/"
        follower = PROGRAM.follower(tmp_path, [dev.gateway_address])
        with PROGRAM.provider(tmp_path, [dev.gateway_address], "shop-1"), follower.running:
            asyncio.run(follower.sees("shop-1"))
            whole, delta = asyncio.run(get_applications(url)), asyncio.run(get_delta(url))
            assert ids(whole) == ids(delta) == ["shop-1"]
            assert whole.appsHashcode == delta.appsHashcode == "UP_1_"
            [found] = whole.get_application(SERVICE).instances
            assert (found.ipAddr, found.hostName, found.port.port) == ("10.0.0.1", "shop.example", 8080)
            assert found.metadata["version"] == "1.2"
