"""A real HAProxy finds its servers by the SRV records of two gateways."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from slotreeve_harness.processes import LocalCluster, dns_port

from tests.faces.programs import Program, program
from tests.faces.whoever_is_killed import SERVICE, Discovery, Seen, follow_whoever_is_killed

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
RUNNING = "2"


def resolving_haproxy(directory: Path, cluster: LocalCluster) -> Discovery:
    admin, file = directory / "haproxy.sock", directory / "resolving.cfg"
    nameservers = "\n".join(
        f"  nameserver gateway-{number} 127.0.0.1:{dns_port(address)}"
        for number, address in enumerate(cluster.gateway_addresses)
    )
    file.write_text(
        f"""global
  stats socket {admin}
defaults
  mode http
  timeout connect 1s
  timeout client 5s
  timeout server 5s
resolvers registry
{nameservers}
  accepted_payload_size 1232
  resolve_retries 3
  timeout resolve 500ms
  timeout retry 500ms
  hold valid 500ms
  hold nx 500ms
  hold obsolete 500ms
backend discovered
  server-template one 10 _{SERVICE}._tcp.service.slotreeve resolvers registry resolve-prefer ipv4 init-addr none
"""
    )
    running = Program(["haproxy", "-f", str(file)], directory / "resolving.log")
    return Discovery(running, lambda: servers_of(admin), has_zones=False)


def servers_of(admin: Path) -> Seen:
    """The servers that it would send requests to now; none while it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(admin))
            connection.sendall(b"show servers state discovered\n")
            lines = connection.makefile().read().splitlines()
    except OSError:
        return {}
    heads = next((line.split()[1:] for line in lines if line.startswith("# be_id")), [])
    rows = [dict(zip(heads, line.split(), strict=False)) for line in lines if "discovered" in line]
    return {f"{row['srv_addr']}:{row['srv_port']}": "" for row in rows if row["srv_op_state"] == RUNNING}


def test_haproxy_follows_every_change_whoever_is_killed(tmp_path: Path) -> None:
    program("haproxy")
    asyncio.run(follow_whoever_is_killed(tmp_path, "dns", lambda _, cluster: resolving_haproxy(tmp_path, cluster)))
