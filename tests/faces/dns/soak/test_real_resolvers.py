"""Programs of others see a service of forty instances whole, and go on seeing it so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import dns.asyncquery
import dns.message
import dns.rcode
import pytest
from slotreeve_client import Instance, connect
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer
from slotreeve_protocol.envelope import encode_instance

from tests.faces.dns.dns_on_trial import HOST, Dns, play, until
from tests.faces.dns.soak.test_real_haproxy import servers_of
from tests.faces.name_servers import DNS_PORT, free_name_servers
from tests.faces.programs import Program, program
from tests.faces.prometheus.soak.test_real_prometheus import prometheus
from tests.faces.whoever_is_killed import SERVICE

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]
COUNT = 40
SECONDS = 60.0
ASKED_AGAIN = 20
"""Answers after which a program would have seen another part of the service, if it got a part of it."""
NAMES = (f"_{SERVICE}._tcp.service.slotreeve.", f"_{SERVICE}._tcp.slotreeve.", f"{SERVICE}.service.slotreeve.")
WHOLE = {f"10.0.0.{number}:80": "" for number in range(1, COUNT + 1)}


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


async def register_all(dev: DevServer) -> None:
    async with connect(dev.session_address) as client:
        for endpoint in WHOLE:
            await client.leases.register(SERVICE, endpoint, encode(endpoint), ttl_seconds=SECONDS)


def encode(endpoint: str) -> bytes:
    return encode_instance(Instance(endpoint.partition(":")[0], 80))


async def stays(face: Dns, sees: Callable[[], Mapping[str, str]]) -> None:
    """Wait until a program sees the whole service, and check that it does so after each of its further questions."""
    loop = asyncio.get_running_loop()

    async def is_whole() -> bool:
        return await loop.run_in_executor(None, sees) == WHOLE

    await until(is_whole)
    answers = face.counters()["dns_answers"]
    while face.counters()["dns_answers"] < answers + ASKED_AGAIN:
        found = await loop.run_in_executor(None, sees)
        assert found == WHOLE, sorted(WHOLE.keys() ^ found.keys())


@pytest.mark.parametrize("by", ["", "tcp@"])
def test_haproxy_has_all_servers_and_none_of_them_goes(dev: DevServer, tmp_path: Path, by: str) -> None:
    admin, file, log = tmp_path / "haproxy.sock", tmp_path / "haproxy.cfg", tmp_path / "haproxy.log"

    async def scenario(face: Dns) -> None:
        await register_all(dev)
        file.write_text(
            f"""global
  stats socket {admin}
defaults
  mode http
  timeout connect 1s
  timeout client 5s
  timeout server 5s
resolvers registry
  nameserver gateway {by}{HOST}:{face.port}
  accepted_payload_size 8192
  timeout resolve 200ms
  timeout retry 200ms
  hold valid 200ms
  hold nx 200ms
  hold obsolete 200ms
backend discovered
  server-template one {COUNT + 10} {NAMES[0]} resolvers registry resolve-prefer ipv4 init-addr none
"""
        )
        with Program(["haproxy", "-f", str(file)], log):
            await stays(face, lambda: servers_of(admin))
        assert "is going DOWN" not in log.read_text().rpartition("UP")[2]

    program("haproxy")
    play(dev.session_address, scenario)


def test_unbound_that_tells_no_more_of_a_name_than_it_must_finds_the_whole_service(
    dev: DevServer, tmp_path: Path
) -> None:
    listens = int(free_address().rpartition(":")[2])
    file = tmp_path / "unbound.conf"

    async def scenario(face: Dns) -> None:
        await register_all(dev)
        file.write_text(
            f"""server:
  interface: {HOST}@{listens}
  do-daemonize: no
  use-syslog: no
  chroot: ""
  username: ""
  pidfile: ""
  directory: "{tmp_path}"
  module-config: "iterator"
  qname-minimisation: yes
  qname-minimisation-strict: yes
  use-caps-for-id: yes
  do-not-query-localhost: no
stub-zone:
  name: slotreeve
  stub-addr: {HOST}@{face.port}
"""
        )

        async def answer(name: str, kind: str) -> dns.message.Message:
            return await dns.asyncquery.tcp(dns.message.make_query(name, kind), HOST, 10, listens)

        async def is_found() -> bool:
            try:
                return (await answer(NAMES[0], "SRV")).rcode() == dns.rcode.NOERROR
            except OSError:
                return False

        with Program(["unbound", "-c", str(file)], tmp_path / "unbound.log"):
            await until(is_found)
            for _ in range(3):
                for name in NAMES:
                    for kind in ("SRV", "A", "TXT"):
                        found = await answer(name, kind)
                        assert sum(map(len, found.answer)) == COUNT, (name, kind, found)
            assert (await answer("_com.example.Nobody._tcp.slotreeve.", "SRV")).rcode() == dns.rcode.NXDOMAIN

    program("unbound")
    play(dev.session_address, scenario)


def test_prometheus_has_all_targets_by_dns(dev: DevServer, tmp_path: Path) -> None:
    program("prometheus")
    [host] = free_name_servers(tmp_path, 1)
    discovery: dict[str, object] = {
        "dns_sd_configs": [{"names": [NAMES[0]], "type": "SRV", "refresh_interval": "200ms"}]
    }

    async def scenario(face: Dns) -> None:
        await register_all(dev)
        discovered = prometheus(tmp_path, discovery, [host])
        with discovered.running:
            await stays(face, discovered.now)

    play(dev.session_address, scenario, gateway__listen=f"{host}:0", face__dns__port=DNS_PORT)
