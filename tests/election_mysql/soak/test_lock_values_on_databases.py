"""Large values of the meta state, on real databases."""

from __future__ import annotations

import random

import pytest
from slotreeve.errors import ElectionError, NotLeader
from slotreeve_chaos.sql_servers import SqlServer

from tests.election_mysql.real_nodes import Build, play, started, until

MIB = 1024 * 1024

LARGEST_FRAME = 16 * MIB
"""Of the default of max_allowed_packet; no message of the cluster is longer either."""

PATIENT = {"lease_ms": 20_000, "renew_ms": 2_000, "timeout_ms": 6_000}
"""Times within which a busy machine carries a frame of that size."""

# --- real databases --------------------------------------------------------------------------------------------------

LARGE = {
    "zeros": bytes(8 * MIB),
    "backslashes": b"\\" * (8 * MIB),
    "quotes": b"'\"" * (4 * MIB),
    "noise": random.Random(1).randbytes(8 * MIB),
    "empty": b"",
    "percent": b"%s%(a)s\0;COMMIT;",
}


@pytest.mark.processes
@pytest.mark.timed
def test_eight_mib_of_whatever_bytes_are_stored_and_read_as_they_are(server: SqlServer, build: Build) -> None:
    async def scenario() -> None:
        times = {"lease_ms": 20_000, "renew_ms": 2_000, "timeout_ms": 5_000}
        async with started(build("meta-1", **times)) as (node,):
            await until(lambda: node.leads)
            for key, value in LARGE.items():
                assert await node.election.state.write(key, value, 0, node.term) == 1
                assert await node.election.state.write(key, value, 1, node.term) == 2
            async with started(build("meta-2", **times)) as (reader,):
                await until(lambda: len(list(reader.election.state.keys())) == len(LARGE))
                for key, value in LARGE.items():
                    held = reader.election.state.read(key)
                    assert held is not None
                    assert held.value == value, key

    play(scenario)


@pytest.mark.processes
@pytest.mark.timed
@pytest.mark.parametrize("dialect", ["mysql"])  # PostgreSQL takes 1 GB
def test_a_value_that_the_server_takes_in_no_statement_is_refused_for_good_and_the_leader_goes_on(
    build: Build,
) -> None:
    async def scenario() -> None:
        async with started(build("meta-1", **PATIENT)) as (node,):
            await until(lambda: node.leads)
            term = node.term
            with pytest.raises(ElectionError, match="longer than max_allowed_packet") as caught:
                await node.election.state.write("k", bytes(LARGEST_FRAME), 0, term)
            assert not isinstance(caught.value, NotLeader)
            assert "raise max_allowed_packet" in str(caught.value)
            assert await node.election.state.write("k", b"small", 0, term) == 1
            assert (node.leads, node.term) == (True, term)

    play(scenario)
