"""Unmodified clients of Consul (py-consul) against processes: servers and gateways that die."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import consul  # type: ignore[import-untyped]
import pytest
import slotreeve_client
from slotreeve.model.nodes import Role
from slotreeve_client.tools import open_transport, run_async
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import ClusterSize, DevServer, LocalCluster, ServerProcess

from tests.faces.consul import consul_program
from tests.faces.consul.consul_program import PATIENCE, TTL, Balanced, Failures, Follower, Provider, client
from tests.faces.programs import PYTHON_CONSUL2, program, skip
from tests.faces.providers_and_followers import STEADY, ClientScript, survive_whoever_is_killed
from tests.faces.whoever_is_killed import leader_of

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


def leader(cluster: LocalCluster, service: str) -> ServerProcess:
    """The data server that leads the slot of a service, once the cluster is ready."""

    async def main() -> ServerProcess:
        transport = open_transport()
        try:
            await cluster.ready(transport)
            return await leader_of(cluster, transport, service)
        finally:
            await transport.close()

    return run_async(main())


@pytest.mark.timeout(300)
def test_clients_survive_the_death_of_a_gateway_of_a_session_server_and_of_the_slots_leader(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "cluster", ClusterSize(1, 3, 2), rng=random.Random()) as cluster:
        leader(cluster, "web")
        gateways = [gateway(tmp_path, number, cluster.session_addresses, cluster.name) for number in (1, 2)]
        with running(*gateways):
            addresses = [one.address for one in gateways]
            first, second = Balanced(*addresses), Balanced(*reversed(addresses))
            with Provider(first, "web", "7") as seven, Follower(second, "web") as follower:
                until(lambda: follower.now == ("7",), "it is seen")
                gateways[0].kill()
                time.sleep(ENDED_SECONDS)
                gateways[0].start()
                until(lambda: client(gateways[0].address).status.leader(), "the gateway is back")
                gateways[1].kill()
                time.sleep(ENDED_SECONDS)
                gateways[1].start()
                until(lambda: client(gateways[1].address).status.leader(), "the gateway is back")
                assert {ids for _, _, ids in follower.seen[1:]} <= {("7",), ()}
                came = next(number for number, seen in enumerate(follower.seen) if seen[2])
                assert all(ids == ("7",) for _, _, ids in follower.seen[came:]), "it was gone for a while"
                assert seven.registrations == 1, "another gateway knew the id"
                leader(cluster, "web").kill()
                time.sleep(ENDED_SECONDS)
                assert all(ids == ("7",) for _, _, ids in follower.seen[came:]), "it was gone for a while"
                cluster.of(Role.SESSION)[0].kill()
                time.sleep(ENDED_SECONDS)
                with Provider(second, "web", "8"):
                    until(lambda: follower.now == ("7", "8"), "a new one is seen")
                until(lambda: follower.now == ("7",), "its lease ends", ENDED_SECONDS + 6)
            assert seven.registrations == 1
            follower.check()


def test_another_client_that_waits_is_told_by_the_change_of_a_provider_at_another_gateway(tmp_path: Path) -> None:
    with DevServer() as dev:
        gateways = [gateway(tmp_path, number, [dev.session_address]) for number in (1, 2)]
        with running(*gateways):
            mine, other = (client(one.address) for one in gateways)
            index, _ = other.health.service("web")
            waiting: list[float] = []

            def wait() -> None:
                _, entries = other.health.service("web", index=index, wait="20s")
                assert entries
                waiting.append(time.monotonic())

            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.5)
            began = time.monotonic()
            mine.agent.service.register("web", "web-1", "10.0.0.1", 80)
            thread.join(PATIENCE)
            assert waiting[0] - began < 1


def test_many_programs_register_at_once_and_each_is_seen(tmp_path: Path) -> None:
    with DevServer() as dev:
        one = gateway(tmp_path, 1, [dev.session_address])
        with running(one):

            async def main() -> None:
                def register(number: int) -> str:
                    mine = client(one.address)
                    service = f"service-{number % 5}"
                    assert mine.agent.service.register(service, f"id-{number}", "10.0.0.1", check=consul.Check.ttl(TTL))
                    assert mine.agent.check.ttl_pass(f"service:id-{number}")
                    return service

                names = await asyncio.gather(*(asyncio.to_thread(register, number) for number in range(40)))
                for name in set(names):
                    assert len(client(one.address).health.service(name, passing=True)[1]) == 8

            asyncio.run(main())


@pytest.mark.timeout(300)
def test_python_consul2_survives_whoever_is_killed(tmp_path: Path) -> None:
    program("haproxy")
    if not (PYTHON_CONSUL2 / "stamp").exists():
        skip("there is no python-consul2: ./run test gets it below .venv")
    script = ClientScript(Path(consul_program.__file__), {"PYTHONPATH": str(PYTHON_CONSUL2)})
    asyncio.run(survive_whoever_is_killed(tmp_path, "consul", script, behind_haproxy=True))
    assert f"with {PYTHON_CONSUL2}/consul/__init__.py" in (tmp_path / "follower.log").read_text()
    assert (tmp_path / f"{STEADY}.log").read_text().count("registered\n") == 1, "it renewed"
