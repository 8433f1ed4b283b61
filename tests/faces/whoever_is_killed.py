"""What every program that discovers must survive: gateway, session server and leader of the slot are killed in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slotreeve.model.data_info import DataInfo
from slotreeve.ports import Transport
from slotreeve_client import Client
from slotreeve_client.administration import cluster_view
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import ClusterSize, LocalCluster, ServerProcess
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.instance import Instance

from tests.faces.name_servers import DNS_PORT
from tests.faces.programs import Program, haproxy

SERVICE = "com.example.Discovered"
PATIENCE_SECONDS = 60.0
LEASE_SECONDS = 15.0
"""Some programs take over what they discover only every five seconds."""

Seen = dict[str, str]
"""Zone by ``address:port``."""


class Discovery:
    """A program that discovers :data:`SERVICE` at a gateway, and what it sees. ``has_zones``: it shows zones."""

    def __init__(self, running: Program, sees: Callable[[], Mapping[str, str]], has_zones: bool = True) -> None:
        self.running, self._sees, self._has_zones = running, sees, has_zones

    def now(self) -> Mapping[str, str]:
        """What it sees now."""
        return self._sees()

    async def sees(self, wanted: Seen) -> None:
        """Wait until it sees exactly this."""
        if not self._has_zones:
            wanted = dict.fromkeys(wanted, "")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while (found := await loop.run_in_executor(None, self._sees)) != wanted:
            assert loop.time() < deadline, f"it sees {found}, not {wanted}\n{self.running.said()}"
            await asyncio.sleep(0.2)


async def follow_whoever_is_killed(
    directory: Path,
    face: str,
    discovery_at: Callable[[str, LocalCluster], Discovery],
    name_servers: Sequence[str] = (),
) -> None:
    """Register one instance after the other, kill a process before each, and wait until the program sees it. At last a
    lease ends. The gateways have one ``face`` only. ``discovery_at`` gets the address of HAProxy, which stands before
    two gateways. ``name_servers``: two hosts at which they listen, and answer DNS at its own port."""
    settings = {"face.use": face} | ({"face.dns.port": DNS_PORT} if name_servers else {})
    size = ClusterSize(meta=1, data=3, session=2, gateway=2)
    cluster = LocalCluster(directory, size, settings, gateway_hosts=name_servers)
    cluster.use_keys()
    transport, front = open_transport(), free_address()
    discovery = discovery_at(front, cluster)
    with cluster, haproxy(directory, front, cluster.gateway_addresses), discovery.running:
        await cluster.ready(transport)
        wanted: Seen = {}
        async with open_client(cluster.session_addresses, cluster.name) as client:
            await _register(client, 1, wanted)
            await discovery.sees(wanted)
            leader = await leader_of(cluster, transport, SERVICE)
            for number, victim in enumerate((cluster.servers["gateway-1"], cluster.servers["session-1"], leader), 2):
                victim.kill()
                await _register(client, number, wanted)
                await discovery.sees(wanted)

            await _register(client, 9, wanted, LEASE_SECONDS)
            await discovery.sees(wanted)
            del wanted["10.0.0.9:80"]
            await discovery.sees(wanted)
    await transport.close()


async def leader_of(cluster: LocalCluster, transport: Transport, service: str) -> ServerProcess:
    """The data server that leads the slot of a service now."""
    view = await cluster_view(transport, cluster.name, cluster.meta_addresses.values())
    leader = view.table.slots[cluster.slot_function().slot_of(DataInfo.parse(service).id)].leader
    assert leader is not None
    return cluster.servers[leader]


async def _register(client: Client, number: int, wanted: Seen, ttl_seconds: float = 600.0) -> None:
    # In the metadata as well, for programs that have no zones.
    zone = f"zone-{number}"
    instance = Instance(f"10.0.0.{number}", 80, zone=zone, metadata={"zone": zone})
    await client.leases.register(SERVICE, instance.id, encode_instance(instance), ttl_seconds=ttl_seconds)
    wanted[instance.id] = instance.zone
