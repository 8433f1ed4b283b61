"""Unmodified clients of Consul (py-consul) against processes: servers and gateways that die."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import consul  # type: ignore[import-untyped]
import pytest
import slotreeve_client
from slotreeve.model.nodes import Role
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer, ServerProcess

from tests.faces.consul.consul_program import PATIENCE, TTL, Balanced, Failures, Follower, client

pytestmark = pytest.mark.processes

ENDED_SECONDS = 6 + 3


def gateway(directory: Path, number: int, sessions: list[str], cluster: str = "slotreeve") -> ServerProcess:
    """A gateway process, not started."""
    address = free_address()
    settings = {"gateway.sessions": ",".join(sessions), "gateway.listen": address, "face.use": "rest,consul"}
    settings |= {"node.name": f"gateway-{number}", "cluster.name": cluster}
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "slotreeve_cli", "gateway", "run", "--until-eof", *flags]
    return ServerProcess(Role.GATEWAY, f"gateway-{number}", address, command, directory / f"gw-{number}.log")


@contextmanager
def running(*processes: ServerProcess) -> Iterator[None]:
    with ExitStack() as stack:
        for process in processes:
            process.start()
            stack.callback(process.stop)
            until(lambda process=process: client(process.address).status.leader(), f"{process.name} answers")  # type: ignore[misc]
        yield


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    end, failure = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except Failures as error:
            failure = error
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}; {failure}")


def test_a_client_registers_discovers_follows_a_change_and_sees_a_lease_end(tmp_path: Path) -> None:
    with DevServer() as dev:
        one = gateway(tmp_path, 1, [dev.session_address])
        with running(one):
            mine = client(one.address)
            assert mine.agent.self()["Config"]["Datacenter"] == "slotreeve"
            assert mine.catalog.datacenters() == ["slotreeve"]
            assert mine.status.peers()
            index, found = mine.health.service("web")
            assert found == []
            with Follower(Balanced(one.address), "web") as follower:
                assert mine.agent.service.register(
                    "web", "web-1", "10.0.0.1", 80, tags=["a"], check=consul.Check.ttl(TTL), meta={"k": "v"}
                )
                new_index, [entry] = mine.health.service("web", index=index, wait="10s")
                assert int(new_index) > int(index)
                assert (entry["Service"]["Meta"], entry["Service"]["Tags"]) == ({"k": "v"}, ["a"])
                assert mine.health.service("web", passing=True)[1] == []
                assert mine.agent.check.ttl_pass("service:web-1", notes="fine")
                until(lambda: follower.now == ("web-1",), "the follower sees it", 1)
                assert mine.agent.check.ttl_fail("service:web-1", notes="disk")
                until(lambda: follower.now == (), "the follower sees that it fails", 1)
                [check] = mine.health.checks("web")[1]
                assert (check["Status"], check["Output"]) == ("critical", "disk")
                assert mine.agent.check.ttl_warn("service:web-1")
                assert mine.agent.check.ttl_pass("service:web-1")
                assert [s["ServiceID"] for s in mine.catalog.service("web", tag="a")[1]] == ["web-1"]
                until(lambda: mine.catalog.services()[1] == {"web": ["a"]}, "the list shows it", 3)
                assert [node["Node"] for node in mine.catalog.nodes()[1]] == ["10.0.0.1"]
                assert set(mine.agent.services()) == {"web-1"}
                with slotreeve_client.connect_blocking(dev.session_address) as sdk:
                    [provider] = sdk.get("web")
                    assert provider.instance is not None
                    assert (provider.instance.endpoint, provider.instance.health) == ("10.0.0.1:80", "passing")
                until(lambda: follower.now == ("web-1",), "the follower sees it", 1)
                until(lambda: follower.now == (), "its lease ends", ENDED_SECONDS + 1)
                [check] = mine.health.checks("web")[1]
                assert (check["Status"], check["Output"]) == ("critical", "TTL expired")
                assert mine.agent.check.ttl_pass("service:web-1"), "it comes back by its check"
                until(lambda: follower.now == ("web-1",), "the follower sees it", 1)
                again = {"address": "10.0.0.1", "port": 80, "check": consul.Check.ttl(TTL)}
                assert mine.agent.service.register("web", "web-1", **again)
                assert [check["Status"] for check in mine.health.checks("web")[1]] == ["passing"]
                assert mine.agent.service.maintenance("web-1", "true", "a new disk")
                assert mine.agent.service.register("web", "web-1", **again)
                notes = {check["CheckID"]: check["Notes"] for check in mine.health.checks("web")[1]}
                assert notes == {"service:web-1": "", "_service_maintenance:web-1": "a new disk"}
                assert mine.agent.service.maintenance("web-1", "false")
                assert mine.agent.service.register("shop", "web-1", **again)
                assert (mine.health.service("web")[1], len(mine.health.service("shop")[1])) == ([], 1)
                assert mine.agent.service.deregister("web-1")
                assert not mine.agent.check.ttl_pass("service:web-1")
                assert mine.agent.service.register("web", "web-1", "10.0.0.1", 80)
                assert mine.agent.service.deregister("web-1")
                assert mine.catalog.service("web")[1] == []
                with pytest.raises(consul.exceptions.BadRequest, match="an agent would run"):
                    mine.agent.service.register("web", check=consul.Check.http("http://10.0.0.1", "10s"))
            follower.check()
