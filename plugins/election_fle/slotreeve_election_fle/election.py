"""The shell around the state machine: timers, connections, the disk; and the Election port itself."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable

from slotreeve.clock import Clock, Timer
from slotreeve.errors import ElectionError, NotLeader, SlotreeveError, StorageError
from slotreeve.model.nodes import Role
from slotreeve.ports import Context, Hello, Leadership, MetaState, Storage, Transport
from slotreeve_machines.storage import MemoryStorage

from slotreeve_election_fle.connections import Addresses, Connections
from slotreeve_election_fle.effects import (
    Applied,
    Effect,
    Event,
    HangUp,
    LeadershipChanged,
    Noted,
    NotWritten,
    Probe,
    ResignAsked,
    Send,
    Started,
    Tick,
    WriteAsked,
    Written,
)
from slotreeve_election_fle.introduction import Identity
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.member import Member
from slotreeve_election_fle.messages import StoodDown
from slotreeve_election_fle.quorum import Weighing
from slotreeve_election_fle.state import ReplicatedState
from slotreeve_election_fle.timing import Timing
from slotreeve_election_fle.vote import NOBODY

log = logging.getLogger("slotreeve.election.fle")

PAUSE_SECONDS = 1.0
"""A node whose disk refused a write, or whose state machine failed, stands aside for this long."""
NOBODY_LEADS = Leadership(None, 0, False, 0.0, "not started")


class FleElection:
    """ZooKeeper's fast leader election with a quorum lease, behind :class:`slotreeve.ports.Election`.

    Crash-only: after a failed disk write or an error of its own the node drops its connections, stands aside, and
    takes part again from what the disk holds, as if it had been restarted.

    Attributes:
        failures: how often that has happened.
    """

    def __init__(
        self, context: Context, data_dir: str, timing: Timing, snapshot_every: int, weighing: Weighing
    ) -> None:
        """Nothing is opened before :meth:`start`.

        Raises:
            ConfigError: the weighing does not fit the members.
            ElectionError: the context names no transport, no members, or no place among them for this node.
        """
        self._transport = _checked_transport(context)
        self._addresses = Addresses.of(context.node, context.members, context.listen)
        self._weighing = weighing
        self._quorum = weighing.quorum(self._addresses.by_name)
        self._observer = context.observe_only or self._addresses.sid is None
        self._names = sorted(context.members)
        self._clock: Clock = context.clock
        self._rng: random.Random = context.rng
        self._timing = timing
        self._snapshot_every = snapshot_every
        self._data_dir = data_dir
        self._open_storage = context.open_storage
        process = f"{context.node}@{context.rng.getrandbits(48):012x}"
        hello = Hello(context.cluster, context.node, Role.META, process)
        self._connections = Connections(self._addresses, self._transport, hello, self._clock, self._happened)
        self._state = ReplicatedState(self._write)
        self._storage: Storage | None = None
        self._member: Member | None = None
        self._leadership = NOBODY_LEADS
        self._changed: Callable[[Leadership], None] = lambda _leadership: None
        self._events: deque[Event] = deque()
        self._is_stepping = False
        self._timer: Timer | None = None
        self._timer_due = 0.0
        self._writes: dict[int, asyncio.Future[int]] = {}
        self._next_token = 0
        self._resigned: list[asyncio.Future[None]] = []
        self.failures = 0

    # --- Election ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> MetaState:
        """The fenced meta state; see :class:`slotreeve.ports.Election`."""
        return self._state

    def leadership(self) -> Leadership:
        """Who leads now; see :class:`slotreeve.ports.Election`."""
        if not self._leadership.leading or self._member is None:
            return self._leadership
        known = self._leadership
        return Leadership(known.leader, known.term, True, self._member.valid_until, known.cause)

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Take part; raises as :meth:`slotreeve.ports.Election.start`."""
        if self._storage is not None:
            raise ElectionError("this election was started already")
        self._changed = changed
        self._storage = self._opened_storage()
        try:
            self._member = self._read_disk(self._storage)
            await self._connections.open()
        except SlotreeveError:
            self._storage.close()
            self._storage = self._member = None
            raise
        self._happened(Started())

    async def resign(self) -> None:
        """Give up leadership, once the writes under way are done; see :class:`slotreeve.ports.Election`."""
        if self._leadership.leading:
            resigned = asyncio.get_running_loop().create_future()
            self._resigned.append(resigned)
            self._happened(ResignAsked())
            await resigned

    async def stop(self) -> None:
        """Resign and stop taking part. Idempotent."""
        await self.resign()
        await self._connections.close()
        self._cease("stopped")
        if self._storage is not None:
            self._storage.close()
            self._storage = None

    # --- starting ----------------------------------------------------------------------------------------------------

    def _opened_storage(self) -> Storage:
        if not self._data_dir:
            return MemoryStorage().open()
        if self._open_storage is None:
            raise ElectionError("election.fle.data_dir is set, but this process cannot open directories")
        return self._open_storage(self._data_dir)

    def _read_disk(self, storage: Storage) -> Member:
        ledger = Ledger(storage, self._snapshot_every, self._data_dir)
        identity = Identity(storage, self._names, self._rng, self._data_dir, str(self._weighing))
        self._state.load(ledger.table)
        sid = NOBODY if self._addresses.sid is None else self._addresses.sid
        return Member(sid, self._observer, self._quorum, ledger, identity, self._timing, self._rng)

    # --- stepping ----------------------------------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        """Step the machine; what happens while it is being stepped waits for its turn."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events and self._member is not None:
                self._step(self._member, self._events.popleft())
            self._events.clear()
        finally:
            self._is_stepping = False
        self._set_timer()

    def _step(self, member: Member, event: Event) -> None:
        try:
            for effect in member.step(event, self._clock.now()):
                self._carry_out(effect)
        except StorageError as error:
            log.error("election: %s", error)
            self._stand_aside(str(error))
        except Exception as error:
            log.exception("election: the state machine failed")
            self._stand_aside(f"{type(error).__name__}: {error}")

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self._connections.send(to, message)
            case HangUp(sid, reason):
                self._connections.hang_up(sid, reason)
            case Probe(sid):
                self._connections.probe(sid)
            case Applied(changes):
                self._state.apply(changes)
            case Written(token, version):
                future = self._writes.pop(token)
                if not future.done():
                    future.set_result(version)
            case NotWritten(token, error):
                future = self._writes.pop(token)
                if not future.done():
                    future.set_exception(error)
            case LeadershipChanged(leader, term, leading, cause):
                self._report(None if leader is None else self._names[leader], term, leading, cause)
            case Noted(text, warning):
                log.log(logging.WARNING if warning else logging.DEBUG, "election: %s", text)
            case _:
                raise AssertionError(f"{effect!r} is for the core only")

    def _set_timer(self) -> None:
        due = self._member.deadline if self._member is not None else float("inf")
        if self._timer is not None:
            if self._timer_due == due:
                return
            self._timer.cancel()
            self._timer = None
        if due < float("inf"):
            self._timer_due = due
            self._timer = self._clock.call_later(max(0.0, due - self._clock.now()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._happened(Tick())

    # --- what the port's user sees -----------------------------------------------------------------------------------

    async def _write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        if self._member is None:
            raise NotLeader(f"write to {key!r}: this node does not take part in the election now")
        self._next_token += 1
        token = self._next_token
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writes[token] = future
        self._happened(WriteAsked(token, key, value, expected_version, term))
        return await future

    def _report(self, leader: str | None, term: int, leading: bool, cause: str) -> None:
        self._leadership = Leadership(leader, term, leading, 0.0, cause)
        if not leading:
            waiting, self._resigned = self._resigned, []
            for resigned in waiting:
                if not resigned.done():
                    resigned.set_result(None)
        try:
            self._changed(self.leadership())
        except Exception:
            log.exception("election: whoever was told of the leader failed")

    # --- standing aside ----------------------------------------------------------------------------------------------

    def _stand_aside(self, why: str) -> None:
        self.failures += 1
        if self._leadership.leading:
            self._connections.send_all(StoodDown(self._leadership.term, why))
        self._connections.pause(why)
        self._cease(why)
        self._clock.call_later(PAUSE_SECONDS, self._come_back)

    def _come_back(self) -> None:
        if self._storage is None or self._member is not None:
            return
        try:
            self._member = self._read_disk(self._storage)
        except StorageError as error:
            log.error("election: still standing aside: %s", error)
            self._clock.call_later(PAUSE_SECONDS, self._come_back)
            return
        self._happened(Started())
        self._connections.resume()

    def _cease(self, why: str) -> None:
        """The machine is gone: nobody leads as far as this node knows, and writers are told so."""
        self._member = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        writes, self._writes = self._writes, {}
        for future in writes.values():
            if not future.done():
                future.set_exception(NotLeader(f"{why}: the write may or may not be stored"))
        if self._leadership.leader is not None:
            self._report(None, self._leadership.term, False, why)


def _checked_transport(context: Context) -> Transport:
    if context.transport is None:
        raise ElectionError("the fle election needs a transport, and was given none")
    if not context.members:
        raise ElectionError("the fle election needs the addresses of the meta servers ([cluster.meta])")
    if context.node not in context.members and not context.observe_only:
        names = ", ".join(sorted(context.members))
        raise ElectionError(f"node {context.node!r} is not among the meta servers {names} ([cluster.meta])")
    return context.transport
