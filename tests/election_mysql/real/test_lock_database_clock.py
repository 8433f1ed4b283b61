"""The clock of a real PostgreSQL and a real MariaDB is set on and back under nodes that run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotreeve.errors import SlotreeveError
from slotreeve_chaos.shifted_clock import ShiftedClock
from slotreeve_chaos.sql_programs import ServerMissing
from slotreeve_chaos.sql_servers import MariaDbServer, PostgresServer, SqlServer

from tests.election_mysql.scheduled_nodes import LOOK, RENEW, STEADY, TAKE_OVER, ScheduledNodes, play, until

pytestmark = pytest.mark.processes

SERVERS = {"postgres": PostgresServer, "mysql": MariaDbServer}
HOUR_SECONDS = 3_600.0


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="slotreeve-clock-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def clock(directory: Path) -> ShiftedClock:
    return ShiftedClock(directory)


@pytest.fixture(scope="module", params=sorted(SERVERS))
def shifted(request: pytest.FixtureRequest, directory: Path) -> Iterator[SqlServer]:
    """A server of its own: its clock is wrong for all that use it."""
    try:
        server = SERVERS[request.param](environment=ShiftedClock(directory).environment())
        with server:
            yield server
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def test_a_clock_that_is_set_on_gives_the_row_to_another_and_fences_the_old_leader(
    shifted: SqlServer, clock: ShiftedClock
) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        old = await ensemble.agreed()
        term = ensemble.election(old).leadership().term
        await ensemble.write(old, "k", b"1")
        renewal = await nodes.schedule.hold(nodes.stop_at(old, RENEW)).reached()
        clock.set(HOUR_SECONDS)
        new = await ensemble.leader(among=[name for name in ensemble.names if name != old])
        assert ensemble.election(new).leadership().term == term + 1
        assert ensemble.election(old).leadership().leading, "it cannot know it yet; its lease runs"
        renewal.go_on()
        with pytest.raises(SlotreeveError):
            await ensemble.write(old, "k", b"under the older term")
        await ensemble.write(new, "k", b"2")
        assert await ensemble.agreed() == new

    play(scenario, shifted, STEADY, clock_may_jump=True)


def test_a_clock_that_is_set_back_lengthens_no_lease_of_a_node_and_the_leader_goes_on(
    shifted: SqlServer, clock: ShiftedClock
) -> None:
    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        leader = await ensemble.agreed()
        election = ensemble.election(leader)
        term = election.leadership().term
        clock.set(-HOUR_SECONDS)
        before = election.leadership().valid_until
        await until(lambda: election.leadership().valid_until > before)
        assert election.leadership().valid_until <= ensemble.now(leader) + 2.0
        assert election.leadership().term == term
        await ensemble.write(leader, "k", b"1")

    play(scenario, shifted, STEADY)


def test_a_clock_that_is_set_back_between_the_look_and_the_take_over_refuses_it(
    shifted: SqlServer, clock: ShiftedClock
) -> None:
    """The row has expired when the node looks, and has not when its take-over is carried out. It is free again once the
    clock is right; until then nobody leads, since nobody can know that the lease is over."""

    async def scenario(nodes: ScheduledNodes) -> None:
        ensemble = nodes.ensemble
        await ensemble.start()
        old = await ensemble.agreed()
        other = next(name for name in ensemble.names if name != old)
        term = ensemble.election(old).leadership().term
        attempt = nodes.schedule.hold(nodes.stop_at(other, TAKE_OVER))
        ensemble.kill(old)
        halt = await attempt.reached()
        clock.set(-HOUR_SECONDS)
        looked = nodes.schedule.hold(nodes.stop_at(other, LOOK))
        halt.go_on()
        (await looked.reached()).go_on()
        assert not ensemble.leading()
        clock.set(0.0)
        assert await ensemble.leader() == other
        assert ensemble.election(other).leadership().term == term + 1
        await ensemble.write(other, "k", b"1")

    play(scenario, shifted, STEADY)
