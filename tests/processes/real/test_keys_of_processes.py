"""Keys of real processes: strangers are kept out, and keys change while clients publish."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest
import slotreeve_client
from slotreeve.key_files import TRUSTED_FILE, issue, trusted_in, write_own, write_trusted
from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve_client import Client, ClientOptions
from slotreeve_client.tools import new_key_pair, open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster

from tests.cli.real.registry_commands import command

pytestmark = pytest.mark.processes
SOON = 60.0
SERVICES = 50


async def until(condition: object, what: str) -> float:
    assert callable(condition)
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < SOON, what
        await asyncio.sleep(0.01)
    return time.monotonic() - began


def client(cluster: LocalCluster, key: Path) -> Client:
    return slotreeve_client.connect(
        *cluster.session_addresses, options=ClientOptions(cluster=cluster.name, own_key=str(key))
    )


def renew(cluster: LocalCluster, name: str, role: Role) -> None:
    """As the command does, without a process for it."""
    keys, pair = cluster.directory / "keys", new_key_pair()
    principal = Principal(name, role, pair.public)
    write_own(keys / f"{name}.toml", principal, pair, replaces=True)
    write_trusted(keys / TRUSTED_FILE, [*trusted_in(keys), principal])


def keep_newest(cluster: LocalCluster) -> None:
    keys = cluster.directory / "keys"
    newest = {principal.name: principal for principal in trusted_in(keys)}
    write_trusted(keys / TRUSTED_FILE, newest.values())


def test_keys_of_servers_are_replaced_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        transport = open_transport(cluster.transport)
        await cluster.ready(transport)
        shop = issue(cluster.directory / "keys", "shop", Role.CLIENT, new_key_pair())
        provider, consumer = client(cluster, shop), client(cluster, shop)
        published = [provider.publish(f"com.example.S{n}", b"0") for n in range(SERVICES)]
        seen = [consumer.subscribe(f"com.example.S{n}") for n in range(SERVICES)]
        await until(lambda: all(one.count == 1 for one in seen), "everything is seen")
        count, vanished, is_over = 0, 0, False

        async def publish() -> None:
            nonlocal count, vanished
            while not is_over:
                count += 1
                published[count % SERVICES].republish(str(count).encode())
                vanished += sum(one.count == 0 for one in seen)
                await asyncio.sleep(0.005)

        load = asyncio.create_task(publish())
        for name, role in (("data-1", Role.DATA), ("session-1", Role.SESSION), ("meta-1", Role.META)):
            renew(cluster, name, role)
            await asyncio.sleep(1.0)  # each process looks twice a second
            server = cluster.servers[name]
            await asyncio.to_thread(server.stop, signal.SIGHUP, SOON)
            server.start()
            await cluster.ready(transport, SOON)
            keep_newest(cluster)
            await asyncio.sleep(1.0)
        is_over = True
        await load
        await provider.flush()
        wanted = {n: f"{max(i for i in range(count + 1) if i % SERVICES == n)}".encode() for n in range(SERVICES)}

        def is_equal() -> bool:
            return all(
                [list(provider.data) for provider in seen[n].instances] == [[wanted[n]]] for n in range(SERVICES)
            )

        await until(is_equal, "every last value is seen")
        assert vanished == 0
        assert count > SERVICES
        for one in (provider, consumer):
            await one.close()
        await transport.close()

    with_keys(tmp_path, scenario, ClusterSize(3, 3, 2))


def test_a_client_whose_key_is_revoked_is_out_and_strangers_never_come_in(tmp_path: Path) -> None:
    async def scenario(cluster: LocalCluster) -> None:
        transport = open_transport(cluster.transport)
        await cluster.ready(transport)
        keys = cluster.directory / "keys"
        shop = issue(keys, "shop", Role.CLIENT, new_key_pair())
        bad, good = client(cluster, shop), client(cluster, Path(cluster.operator_key))
        for one in (bad, good):
            one.publish("com.example.Greeter", b"here")
        seen = good.subscribe("com.example.Greeter")
        await until(lambda: seen.count == 2, "both are seen")
        write_trusted(keys / TRUSTED_FILE, [principal for principal in trusted_in(keys) if principal.name != "shop"])
        gone = await until(lambda: bad.server is None, "it is out")
        assert gone < 10.0, "a generous multiple of the second that it takes"
        await until(lambda: seen.count == 1, "what it had ends")
        stranger = slotreeve_client.connect(*cluster.session_addresses, options=ClientOptions(cluster=cluster.name))
        await asyncio.sleep(1.0)
        assert stranger.server is None
        for one in (bad, good, stranger):
            await one.close()
        await transport.close()
        shown = await asyncio.to_thread(command, cluster, "members", "-o", "json")
        assert shown.returncode == 0, shown.stderr

    with_keys(tmp_path, scenario, ClusterSize(1, 2, 1))


def with_keys(tmp_path: Path, scenario: object, size: ClusterSize) -> None:
    assert callable(scenario)
    cluster = LocalCluster(tmp_path / "cluster", size)
    cluster.use_keys()
    with cluster:
        asyncio.run(scenario(cluster))
