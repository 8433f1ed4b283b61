"""What clients that register and discover must survive: each gateway, each session server and the slot's leader are
killed in turn."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slotreeve.model.nodes import Role
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import ClusterSize, LocalCluster, ServerProcess

from tests.faces.programs import Program, haproxy
from tests.faces.whoever_is_killed import leader_of

SERVICE = "shop"
STEADY = "steady"
SEES = "sees "
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class ClientScript:
    """A script in Python with a client of others. ``ADDRESSES`` are separated by commas.

    - ``SCRIPT provide ADDRESSES SERVICE ID`` registers for six seconds and renews until it is killed.
    - ``SCRIPT follow ADDRESSES SERVICE`` prints ``sees`` and a list of ids in JSON at each change, on a line.
    """

    path: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def provider(self, directory: Path, addresses: Sequence[str], instance_id: str) -> Program:
        """A program that registers."""
        return self._program(directory / f"{instance_id}.log", "provide", addresses, SERVICE, instance_id)

    def follower(self, directory: Path, addresses: Sequence[str]) -> Follower:
        """A program that follows."""
        log = directory / "follower.log"
        return Follower(self._program(log, "follow", addresses, SERVICE), log)

    def _program(self, log: Path, kind: str, addresses: Sequence[str], *more: str) -> Program:
        command = [sys.executable, str(self.path), kind, ",".join(addresses), *more]
        return Program(command, log, {"PYTHONUNBUFFERED": "1", **self.variables})


class Follower:
    """A program that follows, and what it has seen."""

    def __init__(self, running: Program, log: Path) -> None:
        self.running, self._log = running, log

    def seen(self) -> list[list[str]]:
        """What it has seen, the newest at the end."""
        lines = self._log.read_text().splitlines(keepends=True) if self._log.exists() else []
        return [json.loads(line.removeprefix(SEES)) for line in lines if line.startswith(SEES) and line.endswith("\n")]

    async def sees(self, *wanted: str) -> None:
        """Wait until it sees exactly these."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while self.seen()[-1:] != [sorted(wanted)]:
            assert loop.time() < deadline, f"it sees {self.seen()[-1:]}, not {wanted}\n{self.running.said()}"
            await asyncio.sleep(0.1)


async def survive_whoever_is_killed(directory: Path, face: str, client: ClientScript, behind_haproxy: bool) -> None:
    """One provider must be seen all the time. While a process is dead, another provider comes, is killed, and its lease
    ends. ``behind_haproxy``: the clients know HAProxy only, before two gateways; else they know both gateways."""
    size = ClusterSize(meta=1, data=3, session=2, gateway=2)
    cluster = LocalCluster(directory, size, {"face.use": face})
    cluster.use_keys()
    front, transport = free_address(), open_transport()
    gateways = cluster.gateway_addresses
    addresses = [front] if behind_haproxy else gateways
    follower, steady = client.follower(directory, addresses), client.provider(directory, addresses, STEADY)

    async def survive(victim: ServerProcess) -> None:
        victim.kill()
        short_lived = f"beside-dead-{victim.name}"
        with client.provider(directory, addresses, short_lived) as provider:
            await follower.sees(short_lived, STEADY)
            provider.kill()
            await follower.sees(STEADY)
        victim.start()
        await cluster.ready(transport)

    with cluster, haproxy(directory, front, gateways):
        await cluster.ready(transport)
        with follower.running, steady:
            await follower.sees(STEADY)
            async with open_client(cluster.session_addresses, cluster.name) as sdk:
                assert [found.instance.id for found in await sdk.get(SERVICE) if found.instance] == [STEADY]
            for victim in (*cluster.of(Role.GATEWAY), *cluster.of(Role.SESSION)):
                await survive(victim)
            await survive(await leader_of(cluster, transport, SERVICE))
            steady.kill()
            await follower.sees()
    await transport.close()
    seen = follower.seen()
    gone = [ids for ids in seen[seen.index([STEADY]) : -1] if STEADY not in ids]
    assert not gone, f"it was gone for a while, as {follower.running.said()} shows"
