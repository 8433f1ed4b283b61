"""Bugs of the lock election and of what it needs of its table, that the election suite must find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slotreeve.errors import StaleTerm, TransportError
from slotreeve.ports import Versioned
from slotreeve_election_mysql.events import Load, Loaded, Renewed, TookOver
from slotreeve_election_mysql.machine import LockRole, Machine
from slotreeve_election_mysql.requests import LockWrite, Requests
from slotreeve_election_mysql.state import CopiedState
from slotreeve_election_mysql.table import Position, RowRenewal
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_simulator.simulated_database import SimulatedDatabase, StoredRow
from slotreeve_simulator.simulated_lock_table import SimulatedLockTable

from tests.conformance.election_bugs import Patch, both, bug, replaced

LOCK = "lock"

# --- the machine -----------------------------------------------------------------------------------------------------


@bug(LOCK, "the lease is counted from the receipt of the database's answer")
def lock_lease_from_receipt() -> Patch:
    original = Machine._answered

    def answered(self: Machine, answer: Any, now: float) -> None:
        if isinstance(answer, TookOver):
            answer = TookOver(answer.won, now)
        elif isinstance(answer, Renewed):
            answer = Renewed(answer.done, now)
        original(self, answer, now)

    return replaced(Machine, "_answered", answered)


@bug(LOCK, "the owner of the row leads before it has read the meta state")
def _leads_before_loading() -> Patch:
    original = Machine._took_over

    def took_over(self: Machine, won: bool, sent_at: float, now: float) -> None:
        original(self, won, sent_at, now)
        if self._role is LockRole.LOADING:
            self._role = LockRole.LEADING
            self._know(self._owner, "elected", leading=True)

    return replaced(Machine, "_took_over", took_over)


@bug(LOCK, "a new owner reads nothing before it leads")
def _loads_nothing() -> Patch:
    original = Requests._carry_out

    async def carry_out(self: Requests, request: Any) -> Any:
        return Loaded() if isinstance(request, Load) else await original(self, request)

    return replaced(Requests, "_carry_out", carry_out)


@bug(LOCK, "a node that finds its own name in the row leads on under the lease that it has given up")
def _retakes_its_own_lease() -> Patch:
    original = Machine._follow

    def follow(self: Machine, row: Any, is_behind: bool, now: float) -> None:
        if row.owner == self._owner:
            self._highest_term, self._term_duration = row.term, row.term_duration
            self._role = LockRole.LOADING
            self._set_lease(now)
            self._ask(Load())
        else:
            original(self, row, is_behind, now)

    return replaced(Machine, "_follow", follow)


@bug(LOCK, "a leader whose renewal was refused leads on")
def _refused_renewal_ignored() -> Patch:
    original = Machine._renewed

    def renewed(self: Machine, done: bool, sent_at: float, now: float) -> None:
        original(self, True, sent_at, now)

    return replaced(Machine, "_renewed", renewed)


@bug(LOCK, "a take-over that was refused counts as won")
def _refused_take_over_ignored() -> Patch:
    original = Machine._took_over

    def took_over(self: Machine, won: bool, sent_at: float, now: float) -> None:
        original(self, True, sent_at, now)

    return replaced(Machine, "_took_over", took_over)


@bug(LOCK, "a new owner goes on under the term of the one before")
def _same_term_again() -> Patch:
    original = SimulatedLockTable.take_over

    async def take_over(self: SimulatedLockTable, seen: Any, owner: str, term: int, duration_ms: int) -> bool:
        return await original(self, seen, owner, max(1, seen.term), duration_ms)

    right = Machine._follow

    def follow(self: Machine, row: Any, is_behind: bool, now: float) -> None:
        right(self, row, is_behind, now)
        self._taking = max(1, row.term)

    return both(replaced(SimulatedLockTable, "take_over", take_over), replaced(Machine, "_follow", follow))


@bug(LOCK, "a leader's lease ends later than the database's")
def _lease_without_margin() -> Patch:
    return replaced(LockTiming, "margin", property(lambda self: -0.2 * self.lease))


@bug(LOCK, "a node that resigns releases the row and leads on until its lease ends")
def _leads_on_after_resigning() -> Patch:
    original = Machine._step_down

    def step_down(self: Machine, cause: str, now: float) -> None:
        if cause != "resigned":
            original(self, cause, now)

    return replaced(Machine, "_step_down", step_down)


@bug(LOCK, "a database that was set back is not noticed")
def _set_back_unnoticed() -> Patch:
    return replaced(CopiedState, "contradiction", lambda self, newest: "")


@bug(LOCK, "a node that has resigned stands for leadership again at once")
def _resigned_node_stands_at_once() -> Patch:
    original = Machine._resign

    def resign(self: Machine, for_good: bool, now: float) -> None:
        original(self, for_good, now)
        self._stands_from = now

    return replaced(Machine, "_resign", resign)


@bug(LOCK, "a history that was accepted anew ends no leadership that rests on the old one")
def _accepted_anew_unnoticed() -> Patch:
    original = Machine._looked

    def on_looked(self: Machine, looked: Any, now: float) -> None:
        original(self, replace(looked, is_accepted_anew=False), now)

    return replaced(Machine, "_looked", on_looked)


# --- writes ----------------------------------------------------------------------------------------------------------


@bug(LOCK, "what a stalled COMMIT may still change is read without waiting for it")
def _settles_too_early() -> Patch:
    return both(
        replaced(SimulatedLockTable, "settled_index", SimulatedLockTable.index),
        replaced(CopiedState, "follows", lambda _self, _change: True),
    )


@bug(LOCK, "after a write without an answer the next one is made from the old copy")
def _never_settles() -> Patch:
    async def settle(self: Requests) -> None:
        self._is_unsettled = False

    return replaced(Requests, "_settle", settle)


@bug(LOCK, "a change is applied although the one before it is missing")
def _applies_with_gaps() -> Patch:
    async def settle(self: Requests) -> None:
        self._is_unsettled = False

    return both(replaced(CopiedState, "follows", lambda _self, _change: True), replaced(Requests, "_settle", settle))


@bug(LOCK, "a write without an answer is reported as refused")
def _unknown_is_refused() -> Patch:
    original = LockWrite.fail

    def fail(self: LockWrite, error: Exception) -> None:
        original(self, StaleTerm(str(error)) if "may or may not" in str(error) else error)

    return replaced(LockWrite, "fail", fail)


@bug(LOCK, "a write without an answer is reported as stored")
def _unknown_is_stored() -> Patch:
    original = Requests._store

    async def store(self: Requests, write: LockWrite, owner: Any) -> None:
        if self._is_unsettled and owner.refusal(write.key, write.term) is None:
            held = self._state.read(write.key)
            write.done.set_result(1 if held is None else held.version + 1)
            return
        await original(self, write, owner)

    return replaced(Requests, "_store", store)


@bug(LOCK, "a write without an answer is sent once more")
def _unknown_is_repeated() -> Patch:
    original = SimulatedLockTable.write

    async def write(
        self: SimulatedLockTable, owner: str, term: int, key: str, value: bytes, expected_version: Any, after: Any
    ) -> Any:
        try:
            return await original(self, owner, term, key, value, expected_version, after)
        except TransportError:
            return await original(self, owner, term, key, value, expected_version, after)

    return replaced(SimulatedLockTable, "write", write)


# --- what the database has to ensure ---------------------------------------------------------------------------------


@bug(LOCK, "a write does not look at the row's owner and term, and nobody looks at what it has done")
def _unfenced_write() -> Patch:
    def right_row(self: SimulatedLockTable, owner: str, term: int) -> StoredRow:
        return StoredRow(owner, 1_000, term, 0, self._database.clock.now())

    original = SimulatedLockTable.write

    async def write(
        self: SimulatedLockTable, owner: str, term: int, key: str, value: bytes, expected_version: Any, after: Any
    ) -> Any:
        link_run = self._link.run_with_row

        async def run(work: Any, change: Any = None) -> Any:
            def unfenced() -> Any:
                row, self._database.row = self._database.row, right_row(self, owner, term)
                try:
                    return work()
                finally:
                    self._database.row = row

            return await link_run(unfenced, change)

        with replaced(self._link, "run_with_row", run):
            return await original(self, owner, term, key, value, expected_version, after)

    # A leader that finds a write under an older term behind its own ones gives way with an alarm.
    unseen = replaced(CopiedState, "contradiction", lambda self, newest: "")
    return both(replaced(SimulatedLockTable, "write", write), unseen)


@bug(LOCK, "the expected version is not looked at")
def _lock_any_version_will_do() -> Patch:
    original = SimulatedLockTable.write

    async def write(
        self: SimulatedLockTable,
        owner: str,
        term: int,
        key: str,
        value: bytes,
        _expected_version: int | None,
        after: Any,
    ) -> Any:
        return await original(self, owner, term, key, value, None, after)

    return replaced(SimulatedLockTable, "write", write)


@bug(LOCK, "the row is taken over before it has expired")
def _take_over_before_expiry() -> Patch:
    original = SimulatedDatabase.remaining_ms
    return replaced(SimulatedDatabase, "remaining_ms", lambda self, row: original(self, row) - row.duration_ms // 2)


@bug(LOCK, "a take-over compares neither owner, term nor renewals")
def _take_over_compares_nothing() -> Patch:
    async def take_over(self: SimulatedLockTable, _seen: Any, owner: str, term: int, duration_ms: int) -> bool:
        return await self._compare_and_set(
            lambda row: StoredRow(owner, duration_ms, term, 0, self._database.clock.now())
        )

    return replaced(SimulatedLockTable, "take_over", take_over)


@bug(LOCK, "a renewal does not look whether the row is still the node's")
def _renews_what_is_not_its_own() -> Patch:
    async def renew(self: SimulatedLockTable, owner: str, term: int, term_duration: int) -> RowRenewal:
        now = self._database.clock.now()
        done = await self._compare_and_set(
            lambda row: replace(row, owner=owner, term=term, term_duration=term_duration + 1, modified=now)
        )
        return RowRenewal(done, Position(*self._database.newest))

    return replaced(SimulatedLockTable, "renew", renew)


@bug(LOCK, "a release frees the row whoever holds it")
def _releases_what_is_not_its_own() -> Patch:
    async def release(self: SimulatedLockTable, owner: str, term: int, kept_for: str = "", wait_ms: int = 0) -> bool:
        return await self._compare_and_set(lambda row: replace(row, owner="", duration_ms=0))

    return replaced(SimulatedLockTable, "release", release)


@bug(LOCK, "changes of the newest term alone are read")
def _reads_the_newest_term_only() -> Patch:
    original = SimulatedLockTable._read_changes

    def read(self: SimulatedLockTable, after: int, up_to: int | None) -> Sequence[tuple[int, str, Versioned]]:
        changes = original(self, after, up_to)
        newest = max((held.term for _, _, held in changes), default=0)
        return [change for change in changes if change[2].term == newest]

    return replaced(SimulatedLockTable, "_read_changes", read)
