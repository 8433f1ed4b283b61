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
from slotreeve_election_mysql.loading import Loading
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

    def __init__(
        self, table: LockTable, state: CopiedState, name: str, lease_ms: int, clock: Clock, keep_ms: int = 0
    ) -> None:
        """``name``: of this process as an owner of the row. ``keep_ms``: for which a row is kept for a successor."""
        self._table, self._state, self._name, self._lease_ms, self._clock = table, state, name, lease_ms, clock
        self._keep_ms = keep_ms
        # A write got no answer, or another one was committed before an own one: the copy may lack a change.
        self._is_unsettled = False
        self._settle_at = 0.0
        self._seen_history = self._server = self._doubt = self._lost = ""
        self._loading, self._loading_as = Loading(), (LoadScope.NEWER, "")
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
                return await self._compared(await table.look())
            case Insert(term, may_wait):
                fence = max(term, await table.highest_term())
                await table.insert(fence, self._lease_ms if may_wait or fence > 0 else 0)
                return Inserted()
            case TakeOver(seen, term):
                return TookOver(await table.take_over(seen, self._name, term, self._lease_ms), sent_at)
            case Renew(term, term_duration):
                renewal = await table.renew(self._name, term, term_duration)
                return Renewed(renewal.done, sent_at, self._state.contradiction(renewal.newest))
            case Release(term, to):
                await table.release(self._name, term, to, self._keep_ms if to else 0)
                return Released()
            case Load(scope):
                return await self._load(scope)

    # --- reading the meta state --------------------------------------------------------------------------------------

    async def _compared(self, row: Row | None) -> Looked:
        """The row, and how what is known compares with what the database has."""
        state = self._state
        if row is None:
            return Looked(None, False)
        self._meet_server(row.server)
        self._seen_history = row.history
        if state.history is None:
            state.history = row.history
        if state.history != row.history:
            self._lost = ""
            return Looked(row, is_behind=True, is_accepted_anew=True)
        set_back = state.contradiction(row.newest)
        if not set_back and self._lost:
            self._lost = state.contradiction_in(await self._table.index(0), 0)
            set_back = self._lost
        if set_back:
            return Looked(row, False, set_back)
        doubt, self._doubt = self._doubt, ""
        return Looked(row, row.newest != state.newest, doubt=doubt)

    def _meet_server(self, server: str) -> None:
        if server != self._server:
            if self._server:
                self._doubt = f"it is another server now ({server}) than before ({self._server})"
                self._loading.forget()
            self._server = server

    async def _load(self, scope: LoadScope) -> Loaded:
        """Read one page; the first time, find out which pages there are."""
        state, is_other_history = self._state, self._state.history != self._seen_history
        if is_other_history:
            scope = LoadScope.ANEW
        if not self._loading.is_under_way or self._loading_as != (scope, self._seen_history):
            since = state.newest.revision if scope is LoadScope.NEWER else 0
            index = await self._table.index(since)
            self._lost = "" if is_other_history else state.contradiction_in(index, since)
            if self._lost:
                return Loaded(set_back=self._lost)
            first = index[0].revision if scope is LoadScope.ANEW and index else state.first_missing(index)
            self._loading_as = (scope, self._seen_history)
            self._loading.begin(first - 1 if first is not None else state.newest.revision, index)
        if self._loading.is_under_way:
            await self._read_page()
        if self._loading.is_under_way:
            return Loaded(is_whole=False)
        if scope is LoadScope.ANEW:
            state.replace(self._loading.take())
            state.history = self._seen_history
        else:
            state.apply(self._loading.take())
        return Loaded()

    async def _read_page(self) -> None:
        page = self._loading.page()
        try:
            self._loading.came(page, await self._table.page(page.after, page.up_to))
        except TransportError:
            self._loading.failed()
            raise

    # --- writes ------------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Read what the copy may lack. Afterwards no write of this node is under way in the database."""
        self._is_unsettled = True
        self._settle_at = self._clock.now() + SETTLE_SECONDS
        state, since = self._state, self._state.newest.revision
        index = await self._table.settled_index(since)
        self._lost = state.contradiction_in(index, since)
        if self._lost:
            raise NotLeader(f"the database was set back: {self._lost}")
        # What a page of a Load has brought stays: it is no later than this.
        pages = Loading()
        pages.begin(since, index)
        while pages.is_under_way:
            page = pages.page()
            pages.came(page, await self._table.page(page.after, page.up_to))
        state.apply(pages.take())
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
                self._name, write.term, write.key, write.value, write.expected_version, self._state.newest
            )
            if self._state.follows(change):
                self._state.apply([change])
            else:
                await self._settle()
        except VersionConflict as error:
            if write.expected_version == self._version(write.key):
                self._doubt = f"{error}, and so does this node"
                owner.row_changed()
            write.fail(error)
        except ElectionError as error:
            write.fail(error)
            owner.row_changed()
        except TransportError as error:
            self._is_unsettled = True
            write.fail(NotLeader(f"write to {write.key!r}: may or may not be stored: {error}"))
        else:
            if not write.done.done():
                write.done.set_result(change[2].version)

    def _version(self, key: str) -> int:
        held = self._state.read(key)
        return 0 if held is None else held.version
