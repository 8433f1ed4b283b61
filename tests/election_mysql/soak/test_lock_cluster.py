"""A whole cluster of processes whose meta servers elect by a database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import slotreeve_transport_zmq
from slotreeve.ports import Transport
from slotreeve_chaos.sql_backends import TIMES, ServerStore
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_client.administration import cluster_leader, cluster_view
from slotreeve_client.tools import tool_context
from slotreeve_election_mysql import LockOptions
from slotreeve_election_mysql.dialect import Tables
from slotreeve_harness.processes import ClusterSize, LocalCluster

pytestmark = [pytest.mark.processes, pytest.mark.timed]


def test_a_cluster_keeps_its_table_when_its_meta_leader_is_killed(
    dialect: str, server: SqlServer, tables: Mapping[str, object], tmp_path: Path
) -> None:
    options = {**TIMES, **tables, "dsn": server.dsn()}
    settings = {"election.use": dialect} | {f"election.{dialect}.{key}": value for key, value in options.items()}

    async def main(cluster: LocalCluster) -> None:
        transport = slotreeve_transport_zmq.build(slotreeve_transport_zmq.ZmqOptions(), tool_context())
        before = await cluster.ready(transport)
        for name in cluster.meta_addresses:
            cluster.servers[name].kill()
            cluster.servers[name].start()
            after = await cluster.ready(transport)
            assert after.table == before.table
        await transport.close()

    with LocalCluster(tmp_path, ClusterSize(meta=2, data=2, session=1), settings) as cluster:
        asyncio.run(main(cluster))


def test_a_database_that_is_set_back_under_a_cluster_elects_nobody_until_an_operator_accepts_it(
    dialect: str, server: SqlServer, tables: Mapping[str, object], tmp_path: Path
) -> None:
    options = {**TIMES, **tables, "dsn": server.dsn()}
    settings = {"election.use": dialect} | {f"election.{dialect}.{key}": value for key, value in options.items()}
    own = LockOptions.model_validate(tables)

    async def nobody_leads(cluster: LocalCluster, transport: Transport) -> bool:
        answers = [
            await cluster_leader(transport, cluster.name, [address]) for address in cluster.meta_addresses.values()
        ]
        return all(answer.leader is None for answer in answers)

    async def main(cluster: LocalCluster) -> None:
        transport = slotreeve_transport_zmq.build(slotreeve_transport_zmq.ZmqOptions(), tool_context())
        await cluster.ready(transport)
        store = ServerStore(server, Tables(own.table, own.state_table, cluster.name, own.lock_name))
        restore = await store.back_up()
        cluster.servers["data-1"].kill()
        cluster.servers["data-1"].start()
        before = await cluster.ready(transport)
        await asyncio.sleep(1)  # every meta server reads the newest changes
        await restore()
        async with asyncio.timeout(20):
            while not await nobody_leads(cluster, transport):  # noqa: ASYNC110 - another process is polled
                await asyncio.sleep(0.05)
        await asyncio.sleep(2)
        assert await nobody_leads(cluster, transport)
        logs = "".join(cluster.servers[name].log.read_text() for name in cluster.meta_addresses)
        assert "ALARM: election: the database was set back" in logs
        flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        flags += ["--set", f"cluster.name={cluster.name}"]
        for name, address in cluster.meta_addresses.items():
            flags += ["--set", f"cluster.meta.{name}={address}"]
        command = [sys.executable, "-m", "slotreeve_cli", "election", "accept", "--yes", *flags]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("accepted: ")
        after = await cluster.ready(transport)
        while after.revision <= before.revision:
            await asyncio.sleep(0.05)
            after = await cluster_view(transport, cluster.name, cluster.meta_addresses.values())
        await transport.close()

    with LocalCluster(tmp_path, ClusterSize(meta=2, data=2, session=1), settings) as cluster:
        asyncio.run(main(cluster))
