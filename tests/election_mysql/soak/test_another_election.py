"""One word swaps the election: the steps of docs/choosing-an-election.md, on real processes and real databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve.ports import Transport
from slotreeve_chaos.sql_backends import TIMES, fresh_tables
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_protocol.orders import ORDERS_KEY

from tests.election_mysql.conftest import shared_server
from tests.processes.under_load import configuration, slotreeve, under_load

pytestmark = pytest.mark.processes


@pytest.mark.timeout(300)
def test_one_word_swaps_the_election_and_nothing_is_lost(tmp_path: Path) -> None:
    databases: dict[str, dict[str, object]] = {
        dialect: {**TIMES, **fresh_tables(), "dsn": shared_server(dialect).dsn()} for dialect in ("postgres", "mysql")
    }
    options = {f"election.{name}.{key}": value for name, of in databases.items() for key, value in of.items()}

    async def swap(cluster: LocalCluster, transport: Transport, use: str) -> None:
        """The steps of the documentation."""
        file = str(tmp_path / f"before-{use}.json")
        await slotreeve(cluster, "snapshot", "save", file)
        for server in cluster.of(Role.META):
            server.signal_stop()
        for server in cluster.of(Role.META):
            await asyncio.to_thread(server.stop)
        cluster.configure(Role.META, {"election.use": use})
        for server in cluster.of(Role.META):
            server.start()
        await cluster.ready(transport)
        await slotreeve(cluster, "snapshot", "restore", file, "--yes", "--delete-extra")

    async def main(cluster: LocalCluster) -> None:
        async with under_load(cluster) as transport:
            await slotreeve(cluster, "provide", "put", "limits.rate", "100")
            await slotreeve(cluster, "admin", "client-off", "10.0.0.9")
            before = await configuration(cluster)
            for use in ("postgres", "mysql", "fle"):
                await swap(cluster, transport, use)
                assert await configuration(cluster) == before
                cluster.servers["data-1"].kill()  # the new leader must be followed: it gives the slots to others
                cluster.servers["data-1"].start()
                await cluster.ready(transport)
                await slotreeve(cluster, "provide", "put", f"after.{use}", "1")
                before = await configuration(cluster)
        assert before.keys() == {"limits.rate", ORDERS_KEY, "after.postgres", "after.mysql", "after.fle"}

    with LocalCluster(tmp_path / "cluster", ClusterSize(meta=3, data=3, session=2), options) as cluster:
        asyncio.run(main(cluster))
