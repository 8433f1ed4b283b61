"""What one node asks of its table: the state machine's requests and the writes, over one connection, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from slotreeve.clock import Clock
from slotreeve.errors import ElectionError, NotLeader, SlotreeveError, TransportError, VersionConflict

from slotreeve_election_mysql.events import (
    Answer,
    Insert,
    Inserted,
    Load,
    Loaded,
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
from slotreeve_election_mysql.state import CopiedState
from slotreeve_election_mysql.table import LockTable, Row

log = logging.getLogger("slotreeve.election.lock")

SETTLE_SECONDS = 0.1
"""Pause before the outcome of a write without an answer is looked up again."""


@dataclass(frozen=True)
class LockWrite:
    """A write of the meta state that waits for its turn; ``done`` gets its version, or an error."""

    key: str
    value: bytes
    expected_version: int | None
    term: int
    done: asyncio.Future[int]

    def fail(self, error: Exception) -> None:
        """Answer with an error, if it has no answer yet."""
        if not self.done.done():
            self.done.set_exception(error)


class RequestOwner(Protocol):
    """The election, as its requests see it."""

    def answered(self, answer: Answer) -> None:
        """The request is done."""

    def refusal(self, key: str, term: int) -> ElectionError | None:
        """Why this node cannot take a write, as far as it knows without the database; None if it can."""

    def row_changed(self) -> None:
        """The database refused a write in a way that another owner of the row would explain."""


class Requests:
    """The queue before the table. A request of the state machine goes before writes that wait.

    Attributes:
        under_way: the request that has no answer yet.
    """

    def __init__(self, table: LockTable, state: CopiedState, name: str, lease_ms: int, clock: Clock) -> None:
        """``name``: of this process as an owner of the row."""
        self._table, self._state, self._name, self._lease_ms, self._clock = table, state, name, lease_ms, clock
        # A write got no answer, or another one was committed before an own one: the copy may lack a change.
        self._is_unsettled = False
        self._settle_at = 0.0
        self._seen_history = ""
        self._writes: deque[LockWrite] = deque()
        self._wake = asyncio.Event()
        self.under_way: Request | None = None

    def ask(self, request: Request) -> None:
        """Carry out a request; only while none is under way."""
        self.under_way = request
        self._wake.set()

    def write(self, write: LockWrite) -> None:
        """Carry out a write when its turn comes."""
        self._writes.append(write)
        self._wake.set()

    def abandon(self, why: str) -> None:
        """Forget the request, and answer the writes that wait."""
        self.under_way = None
        writes, self._writes = self._writes, deque()
        for write in writes:
            write.fail(NotLeader(f"write to {write.key!r}: not stored, this node does not take part now: {why}"))

    async def run(self, owner: RequestOwner) -> None:
        """Until cancelled."""
        while True:
            if self.under_way is not None:
                answer = await self._answer(self.under_way)
                self.under_way = None
                owner.answered(answer)
            elif self._writes:
                await self._store(self._writes.popleft(), owner)
            elif self._is_unsettled and self._clock.now() >= self._settle_at:
                await self._try_to_settle()
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _answer(self, request: Request) -> Answer:
        try:
            return await self._carry_out(request)
        except SlotreeveError as error:
            return StatementFailed(str(error))
        except Exception as error:
            log.exception("election: a request to the database failed in an unknown way")
            return StatementFailed(f"{type(error).__name__}: {error}")

    async def _carry_out(self, request: Request) -> Answer:
        table, sent_at = self._table, self._clock.now()
        match request:
            case Look():
                return self._compared(await table.look())
            case Insert(term, may_wait):
                fence = max(term, await table.highest_term())
                await table.insert(fence, self._lease_ms if may_wait or fence > 0 else 0)
                return Inserted()
            case TakeOver(seen, term):
                return TookOver(await table.take_over(seen, self._name, term, self._lease_ms), sent_at)
            case Renew(term, term_duration):
                return Renewed(await table.renew(self._name, term, term_duration), sent_at)
            case Release(term):
                await table.release(self._name, term)
                return Released()
            case Load():
                if self._state.history != self._seen_history:
                    self._state.replace(self._seen_history, await table.changes(0))
                else:
                    self._state.apply(await table.changes(self._state.revision))
                return Loaded()

    def _compared(self, row: Row | None) -> Looked:
        """The row, and how what is known compares with what the database has."""
        state = self._state
        if row is None:
            return Looked(None, False)
        self._seen_history = row.history
        if state.history is None:
            state.history = row.history
        if state.history != row.history:
            return Looked(row, is_behind=True, is_accepted_anew=True)
        if row.revision < state.revision:
            return Looked(row, False, f"it has change {row.revision} of the meta state, this node has {state.revision}")
        return Looked(row, row.revision > state.revision)

    # --- writes ------------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Read what the copy may lack. Afterwards no write of this node is under way in the database."""
        self._is_unsettled = True
        self._settle_at = self._clock.now() + SETTLE_SECONDS
        self._state.apply(await self._table.settled_changes(self._state.revision))
        self._is_unsettled = False

    async def _try_to_settle(self) -> None:
        try:
            await self._settle()
        except SlotreeveError as error:
            log.info("election: the outcome of a write is not known yet: %s", error)
            self._clock.call_later(SETTLE_SECONDS, self._wake.set)

    async def _store(self, write: LockWrite, owner: RequestOwner) -> None:
        refusal = owner.refusal(write.key, write.term)
        if refusal is not None:
            write.fail(refusal)
            return
        try:
            if self._is_unsettled:
                await self._settle()
            change = await self._table.write(
                self._name, write.term, write.key, write.value, write.expected_version, self._state.revision
            )
            if self._state.follows(change):
                self._state.apply([change])
            else:
                await self._settle()
        except ElectionError as error:
            write.fail(error)
            if not isinstance(error, VersionConflict):
                owner.row_changed()
        except TransportError as error:
            self._is_unsettled = True
            write.fail(NotLeader(f"write to {write.key!r}: may or may not be stored: {error}"))
        else:
            if not write.done.done():
                write.done.set_result(change[2].version)
