"""A database that is far away, or whose meta state is large: with the default times, on PostgreSQL and MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from slotreeve_chaos.sql_road import SqlRoad
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_election_mysql import LockOptions
from slotreeve_election_mysql.timing import LockTiming

from tests.election_mysql.real_nodes import Build, play, started, until

pytestmark = [pytest.mark.processes, pytest.mark.timed]

DEFAULTS = LockOptions()
TIMES: Mapping[str, object] = {
    "lease_ms": DEFAULTS.lease_ms,
    "renew_ms": DEFAULTS.renew_ms,
    "timeout_ms": DEFAULTS.timeout_ms,
}
ROUND_TRIP_SECONDS = 0.2
MIB = 1024 * 1024


def test_a_leader_200_ms_from_its_database_writes_and_keeps_its_lead_where_a_connection_is_lost(
    server: SqlServer, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with (
            SqlRoad(server, ROUND_TRIP_SECONDS / 2) as road,
            started(build("meta-1", dsn=road.dsn, **TIMES)) as (node,),
        ):
            await until(lambda: node.leads)
            term, state = node.term, node.election.state
            versions = await asyncio.gather(*(state.write("k", b"%d" % number, number, term) for number in range(8)))
            assert versions == list(range(1, 9))
            road.cut()
            seen = node.election.leadership().valid_until
            await until(lambda: node.election.leadership().valid_until > seen)
            assert await state.write("k", b"after", 8, term) == 9
            assert [report.term for report in node.reports if report.leading] == [term]
        assert "should be at least" not in caplog.text, "the default times fit"

    play(scenario)


def test_times_that_do_not_fit_the_way_to_the_database_are_named_at_the_start(
    server: SqlServer, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        times = {"lease_ms": 2_000, "renew_ms": 300, "timeout_ms": 1_000}
        async with SqlRoad(server, 0.1) as road, started(build("meta-1", dsn=road.dsn, **times)) as (node,):
            await until(lambda: node.leads)
        assert "lease_ms (2000) should be at least" in caplog.text
        assert server.host in caplog.text

    play(scenario)


def test_forty_values_of_one_mib_are_loaded_over_a_road_that_takes_longer_than_a_statement_may(
    server: SqlServer, build: Build
) -> None:
    values = {f"key {number}": bytes([number]) * MIB for number in range(40)}

    async def scenario() -> None:
        async with started(build("meta-1", **TIMES)) as (writer,):
            await until(lambda: writer.leads)
            for key, value in values.items():
                await writer.election.state.write(key, value, 0, writer.term)
            async with (
                SqlRoad(server, bytes_per_second=16 * MIB) as road,
                started(build("meta-2", dsn=road.dsn, **TIMES)) as (reader,),
            ):
                await writer.election.stop()
                await until(lambda: reader.leads)
                held = {key: reader.election.state.read(key) for key in values}
                assert {key: each.value for key, each in held.items() if each is not None} == values
                assert await reader.election.state.write("key 0", b"small", 1, reader.term) == 2
                assert len([report for report in reader.reports if report.leading]) == 1

    play(scenario)


@pytest.mark.parametrize(
    ("round_trip", "connecting", "advice"),
    [
        (0.001, 0.01, ""),
        (0.2, 1.3, ""),
        (0.6, 1.4, "timeout_ms (1000) should be at least 1200"),
        (0.3, 1.8, "timeout_ms (1000) should be at least 1200"),
    ],
)
def test_times_fit_where_a_lost_connection_and_its_renewal_fit_into_the_lease(
    round_trip: float, connecting: float, advice: str
) -> None:
    timing = LockTiming(DEFAULTS.lease_ms / 1000, DEFAULTS.renew_ms / 1000, DEFAULTS.timeout_ms / 1000)
    assert advice in timing.misfit(round_trip, connecting)
    assert bool(timing.misfit(round_trip, connecting)) == bool(advice)
