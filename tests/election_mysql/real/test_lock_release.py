"""A row that is handed over to a node, and the row of a dead owner, which a command releases: on PostgreSQL and
MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from slotreeve.errors import ElectionError
from slotreeve_chaos.sql_backends import TIMES
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_cli.main import app
from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.database_election import DatabaseLockElection
from typer.testing import CliRunner

from tests.election_mysql.real_nodes import Build, play, started, until

pytestmark = pytest.mark.processes


def test_a_dead_owners_row_is_released_although_the_database_sees_no_end_of_its_lease(
    dialect: str, server: SqlServer, admin: Session, tables: Mapping[str, object], build: Build, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.toml"
    lines = [f"{key} = {value!r}" for key, value in {**TIMES, **tables, "dsn": server.dsn()}.items()]
    file.write_text(
        "\n".join(['cluster.name = "test"', "[election]", f'use = "{dialect}"', f"[election.{dialect}]", *lines])
    )

    async def scenario() -> None:
        async with started(build("meta-1")) as (node,):
            await until(lambda: node.leads)
        admin.execute(
            f"UPDATE {tables['table']} SET owner = 'gone#1', duration = 3600000, term = term + 1, term_duration = 5"
        )
        async with started(build("meta-2")) as (node,):
            await until(lambda: node.election.leadership().leader == "gone")
            done = await asyncio.to_thread(CliRunner().invoke, app, ["election", "release", "-c", str(file), "--yes"])
            assert done.exit_code == 0, done.output
            assert "the row of gone in term 2 is released" in done.output
            await until(lambda: node.leads)
            assert node.term == 3

    play(scenario)


def test_a_living_owner_keeps_its_row(build: Build) -> None:
    async def scenario() -> None:
        async with started(build("meta-1")) as (node,):
            await until(lambda: node.leads)
            command = build("operator")
            assert isinstance(command, DatabaseLockElection)
            with pytest.raises(ElectionError, match=r"meta-1 has renewed its lease.*election resign"):
                await command.release()
            assert node.leads
            assert len([report for report in node.reports if report.leading]) == 1

    play(scenario)


def test_a_leader_hands_over_to_the_node_that_is_named_every_time(build: Build) -> None:
    async def scenario() -> None:
        async with started(build("meta-1"), build("meta-2"), build("meta-3")) as nodes:
            by_name = dict(zip(("meta-1", "meta-2", "meta-3"), nodes, strict=True))
            await until(lambda: any(node.leads for node in nodes))
            with pytest.raises(ElectionError, match="'meta-9' cannot lead in the place of"):
                await next(node for node in nodes if node.leads).election.hand_over("meta-9")
            for name in ("meta-2", "meta-3", "meta-1", "meta-3"):
                leader = next(node for node in nodes if node.leads)
                if leader is by_name[name]:
                    continue
                term = leader.term
                await leader.election.hand_over(name)
                await until(lambda: any(node.leads for node in nodes))
                assert (by_name[name].leads, by_name[name].term) == (True, term + 1)

    play(scenario)


def test_a_row_that_is_kept_for_a_dead_node_goes_to_another(build: Build) -> None:
    async def scenario() -> None:
        async with started(build("meta-1"), build("meta-2")) as nodes:
            await until(lambda: any(node.leads for node in nodes))
            leader = next(node for node in nodes if node.leads)
            await leader.election.hand_over("meta-3")
            await until(lambda: any(node.leads for node in nodes if node is not leader))

    play(scenario)
