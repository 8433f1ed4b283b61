"""A whole cluster of processes whose meta servers elect by a database."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
import slotreeve_transport_zmq
from slotreeve_client.tools import tool_context
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_harness.sql_backends import TIMES
from slotreeve_harness.sql_servers import SqlServer

pytestmark = pytest.mark.processes


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
