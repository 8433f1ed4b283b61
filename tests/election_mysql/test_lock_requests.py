"""What a node asks of its table: one thing at a time, the machine's request first, and an answer to each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from slotreeve.errors import ElectionError, NotLeader, StaleTerm, VersionConflict
from slotreeve.ports import Versioned
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_election_mysql.events import (
    Answer,
    Insert,
    Inserted,
    Load,
    Loaded,
    LoadScope,
    Look,
    Looked,
    Release,
    Released,
    Renew,
    Renewed,
    Request,
    StatementFailed,
    TakeOver,
    TookOver,
)
from slotreeve_election_mysql.loading import FIRST_PAGE_BYTES
from slotreeve_election_mysql.requests import LockWrite, Requests
from slotreeve_election_mysql.sql_table import SqlRow
from slotreeve_election_mysql.state import CopiedState
from slotreeve_election_mysql.table import Position
from slotreeve_simulator.simulated_database import SimulatedDatabase
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable, SimulatedRow

OWNER, LEASE_MS = "meta-1#1", 600


class Owner:
    """The election, as its requests see it."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.refused: ElectionError | None = None
        self.doubts = 0

    def answered(self, answer: Answer) -> None:
        self.answers.append(answer)

    def refusal(self, key: str, term: int) -> ElectionError | None:
        return self.refused

    def row_changed(self) -> None:
        self.doubts += 1


async def refuse(key: str, value: bytes, expected_version: int | None, term: int) -> int:
    raise AssertionError("writes go through the queue")


class Bench:
    """Requests on a database in memory."""

    def __init__(self) -> None:
        clock = VirtualClock()
        self.database = SimulatedDatabase(clock)
        self.state = CopiedState(refuse)
        self.owner = Owner()
        table = SimulatedLockTable(self.database, clock, 0.3)
        self.requests = Requests(table, self.state, OWNER, LEASE_MS, clock)

    async def ask(self, request: Request) -> Answer:
        self.requests.ask(request)
        await asyncio.sleep(1.0)
        assert self.requests.under_way is None
        return self.owner.answers[-1]

    def write(self, term: int, expected_version: int | None = None, key: str = "k") -> asyncio.Future[int]:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.requests.write(LockWrite(key, b"v", expected_version, term, done))
        return done

    async def lead(self) -> None:
        await self.ask(Insert(0, may_wait=False))
        assert await self.ask(TakeOver(SqlRow("", 0, 0, 0), 1)) == TookOver(True, self.database.clock.now() - 1.0)


def play(scenario: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def main(_rng: random.Random) -> None:
        bench = Bench()
        task = asyncio.get_running_loop().create_task(bench.requests.run(bench.owner))
        await scenario(bench)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main, 1)


def test_each_request_has_its_answer() -> None:
    async def scenario(bench: Bench) -> None:
        assert await bench.ask(Look()) == Looked(None, False)
        assert await bench.ask(Insert(0, may_wait=False)) == Inserted()
        looked = await bench.ask(Look())
        assert isinstance(looked, Looked)
        assert looked.row is not None
        sent_at = bench.database.clock.now()
        assert await bench.ask(TakeOver(looked.row, 1)) == TookOver(True, sent_at)
        renewed = await bench.ask(Renew(1, 0))
        assert isinstance(renewed, Renewed)
        assert not renewed.done  # the lease of 0.6 s has run out meanwhile
        assert await bench.ask(Load()) == Loaded()
        assert await bench.ask(Release(1)) == Released()

    play(scenario)


def test_a_row_that_was_removed_is_made_again_above_every_term_written_and_can_be_taken_a_lease_later() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        assert await bench.write(1) == 1
        bench.database.row = None
        bench.requests.ask(Insert(0, may_wait=False))
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.0)
        row = bench.database.row
        assert row is not None
        assert (row.term, row.duration_ms) == (1, LEASE_MS)

    play(scenario)


def test_without_a_database_the_answer_is_a_failure_with_its_reason() -> None:
    async def scenario(bench: Bench) -> None:
        bench.database.is_down = True
        answer = await bench.ask(Look())
        assert isinstance(answer, StatementFailed)
        assert "the connection was lost" in answer.reason

    play(scenario)


def test_a_write_is_stored_and_known_at_once() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        assert await bench.write(1) == 1
        held = bench.state.read("k")
        assert held is not None
        assert (held.value, held.term) == (b"v", 1)

    play(scenario)


def test_a_request_goes_before_writes_that_wait() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        bench.database.delay_seconds = lambda: 0.05
        writes = [bench.write(1) for _ in range(3)]
        await asyncio.sleep(0.01)
        bench.requests.ask(Look())
        await writes[1]
        assert isinstance(bench.owner.answers[-1], Looked)
        assert await writes[2] == 3

    play(scenario)


def test_a_write_of_a_node_that_does_not_lead_is_refused_without_the_database() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        bench.owner.refused = NotLeader("not any more")
        before = bench.database.statements
        with pytest.raises(NotLeader, match="not any more"):
            await bench.write(1)
        assert bench.database.statements == before

    play(scenario)


def test_a_write_under_an_old_term_is_refused_by_the_database_and_makes_the_owner_read_the_row() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        with pytest.raises(StaleTerm):
            await bench.write(7)
        assert bench.owner.doubts == 1

    play(scenario)


def test_a_write_without_an_answer_is_of_unknown_outcome_and_the_state_is_read_before_the_next() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        bench.database.is_silent = True
        with pytest.raises(NotLeader, match="may or may not be stored"):
            await bench.write(1)
        bench.database.is_silent = False
        assert bench.state.read("k") is None
        assert await bench.write(1) == 2

    play(scenario)


def test_writes_that_wait_are_answered_when_the_node_ceases() -> None:
    async def scenario(bench: Bench) -> None:
        done = bench.write(1)
        bench.requests.abandon("stopped")
        with pytest.raises(NotLeader, match="not stored, this node does not take part now: stopped"):
            await done

    play(scenario)


def stalled(bench: Bench, seconds: float) -> None:
    """The next COMMIT takes so long, and the later ones no time."""
    stalls = [seconds]
    bench.database.commit_seconds = lambda: stalls.pop() if stalls else 0.0


def test_a_write_that_follows_a_stalled_commit_leaves_no_gap_in_what_the_node_knows() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        stalled(bench, 0.5)
        first = bench.write(1, key="first")
        await asyncio.sleep(0.35)  # the client has given up; the database still commits
        assert isinstance(first.exception(), NotLeader)
        second = bench.write(1)
        await asyncio.sleep(0.2)  # the second waits for the row; the first is committed meanwhile
        third = bench.write(1)
        await asyncio.sleep(2)
        assert (second.result(), third.result()) == (1, 2)
        assert bench.state.newest.revision == 3
        assert {key: bench.state.read(key) for key in ("first", "k")} == {
            key: held for key, (_, held) in bench.database.state.items()
        }

    play(scenario)


def test_a_stalled_commit_becomes_known_although_nothing_more_is_written() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        stalled(bench, 2.5)
        done = bench.write(1)
        await asyncio.sleep(1.0)
        assert isinstance(done.exception(), NotLeader)
        assert bench.state.read("k") is None
        await asyncio.sleep(2.5)
        held = bench.state.read("k")
        assert held is not None
        assert (held.value, bench.state.newest.revision) == (b"v", 1)

    play(scenario)


def test_a_change_that_this_node_has_not_seen_is_read_before_an_own_one_counts() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        bench.database.state["other"] = (1, Versioned(b"theirs", 1, 1))
        assert await bench.write(1) == 1
        assert bench.state.newest.revision == 2
        assert bench.state.read("other") == Versioned(b"theirs", 1, 1)

    play(scenario)


def test_a_conflict_with_what_this_node_knows_makes_it_read_everything_anew() -> None:
    """However it came about that it does not know what is stored."""

    async def scenario(bench: Bench) -> None:
        await bench.lead()
        await bench.ask(Look())
        assert await bench.write(1) == 1
        bench.database.state["k"] = (2, Versioned(b"unseen", 2, 1))
        with pytest.raises(VersionConflict):
            await bench.write(1, expected_version=1)
        assert bench.owner.doubts == 1
        looked = await bench.ask(Look())
        assert isinstance(looked, Looked)
        assert "version 2 is stored" in looked.doubt
        await bench.ask(Load(LoadScope.ANEW))
        assert bench.state.read("k") == Versioned(b"unseen", 2, 1)
        with pytest.raises(VersionConflict):
            await bench.write(1, expected_version=1)
        assert bench.owner.doubts == 1, "that writer was late, this node is not"

    play(scenario)


def test_another_server_is_a_reason_to_read_everything_anew() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        await bench.ask(Look())
        await bench.write(1)
        bench.database.replicate()()
        await bench.ask(Look())  # the connection was lost
        looked = await bench.ask(Look())
        assert isinstance(looked, Looked)
        assert (looked.set_back, looked.doubt) == ("", "it is another server now (primary+) than before (primary)")

    play(scenario)


def test_another_change_of_the_same_number_is_one_of_a_database_that_was_set_back() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        await bench.ask(Look())
        await bench.write(1, key="kept")
        await bench.write(1, key="lost")
        bench.database.state = {"kept": (1, Versioned(b"v", 1, 1)), "theirs": (2, Versioned(b"x", 1, 2))}
        looked = await bench.ask(Look())
        assert isinstance(looked, Looked)
        assert looked.set_back == "it has change 2 of the meta state of term 2, this node has 2 of term 1"
        bench.database.state["more"] = (3, Versioned(b"x", 1, 2))
        assert isinstance(await bench.ask(Look()), Looked), "the newest change alone does not tell"
        loaded = await bench.ask(Load())
        assert isinstance(loaded, Loaded)
        assert loaded.set_back == "its change 2 of the meta state is one of 'theirs', this node has one of 'lost'"
        looked = await bench.ask(Look())
        assert isinstance(looked, Looked)
        assert looked.set_back == loaded.set_back, "until an operator decides"

    play(scenario)


def test_the_pages_of_a_load_that_failed_are_not_read_again() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.lead()
        await bench.ask(Look())
        for number in range(4):
            bench.database.state[f"k{number}"] = (number + 1, Versioned(b"v" * FIRST_PAGE_BYTES, 1, 1))
        assert await bench.ask(Load()) == Loaded(is_whole=False)
        bench.database.is_down = True
        assert isinstance(await bench.ask(Load()), StatementFailed)
        bench.database.is_down = False
        assert list(bench.state.keys()) == [], "a part of the state is not shown"
        answers = [await bench.ask(Load()) for _ in range(3)]
        assert answers == [Loaded(is_whole=False)] * 2 + [Loaded()]
        assert len(list(bench.state.keys())) == 4

    play(scenario)


# --- a database that was set back ------------------------------------------------------------------------------------


async def set_back(bench: Bench) -> None:
    """Three changes are known; the database has the first of them only, and the row as it was then."""
    await bench.lead()
    await bench.ask(Look())
    await bench.write(1, key="kept")
    restore = bench.database.back_up()
    await bench.write(1, key="lost")
    await bench.write(1, key="kept")
    restore()
    await bench.ask(Look())  # the connection was lost, too


def test_a_look_at_a_database_that_was_set_back_says_what_it_lacks() -> None:
    async def scenario(bench: Bench) -> None:
        await set_back(bench)
        looked = await bench.ask(Look())
        assert isinstance(looked, Looked)
        assert (looked.is_behind, looked.is_accepted_anew) == (False, False)
        assert looked.set_back == "it has change 1 of the meta state, this node has 3"

    play(scenario)


def test_nothing_is_written_to_a_database_that_was_set_back() -> None:
    async def scenario(bench: Bench) -> None:
        await set_back(bench)
        with pytest.raises(NotLeader, match="was set back"):
            await bench.write(1, key="more")
        assert sorted(bench.database.state) == ["kept"]
        assert bench.owner.doubts == 1

    play(scenario)


def test_an_accepted_database_replaces_all_that_was_known() -> None:
    async def scenario(bench: Bench) -> None:
        await set_back(bench)
        seen: list[tuple[str, Versioned]] = []
        bench.state.watch(lambda key, held: seen.append((key, held)))
        bench.database.history = "accepted"
        looked = await bench.ask(Look())
        assert isinstance(looked, Looked)
        assert (looked.is_behind, looked.is_accepted_anew, looked.set_back) == (True, True, "")
        await bench.ask(Load())
        assert (list(bench.state.keys()), bench.state.newest.revision) == (["kept"], 1)
        assert seen == [("kept", Versioned(b"v", 1, 1)), ("lost", Versioned(b"", 0, 0))]
        assert await bench.ask(Look()) == Looked(
            SimulatedRow(OWNER, 1, 0, -4_400, Position(1, 1), "accepted", "primary"), False
        )
        assert await bench.write(1, 1, key="kept") == 2

    play(scenario)


def test_a_node_that_knows_nothing_yet_takes_the_database_as_it_is() -> None:
    async def scenario(bench: Bench) -> None:
        bench.database.history = "accepted"
        bench.database.state["k"] = (7, Versioned(b"v", 3, 1))
        await bench.ask(Insert(0, may_wait=False))
        looked = await bench.ask(Look())
        assert isinstance(looked, Looked)
        assert (looked.is_behind, looked.is_accepted_anew) == (True, False)

    play(scenario)
