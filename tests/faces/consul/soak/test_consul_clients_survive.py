"""Clients of Consul under deaths and in crowds."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from pathlib import Path

import consul  # type: ignore[import-untyped]
import pytest
from slotreeve.model.nodes import Role
from slotreeve_client.tools import open_transport, run_async
from slotreeve_harness.processes import ClusterSize, DevServer, LocalCluster, ServerProcess

from tests.faces.consul import consul_program
from tests.faces.consul.consul_program import PATIENCE, TTL, Balanced, Follower, Provider, client
from tests.faces.consul.real.test_consul_clients import ENDED_SECONDS, gateway, running, until
from tests.faces.programs import PYTHON_CONSUL2, program, skip
from tests.faces.providers_and_followers import STEADY, ClientScript, survive_whoever_is_killed
from tests.faces.whoever_is_killed import leader_of

pytestmark = pytest.mark.processes


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
