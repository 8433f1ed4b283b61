"""The election that a meta server uses: one back-end after another, without an end of the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from slotreeve.clock import Clock
from slotreeve.errors import ConfigError, ElectionError, NotLeader, SlotreeveError, StaleTerm, VersionConflict
from slotreeve.ports import Election, Leadership, Versioned
from slotreeve_machines.leadership import CountingElection
from slotreeve_machines.watched_state import WatchedState

from slotreeve_servers.meta.swap.back_end import BackEnd, HandsOver
from slotreeve_servers.meta.swap.beside import BackEnds, BackEndsBeside
from slotreeve_servers.meta.swap.swap_record import KEY, SwapRecord
from slotreeve_servers.node.supervisor import Supervisor

log = logging.getLogger("slotreeve.swap")

POLL_SECONDS = 0.01
AGAIN_SECONDS = 1.0
"""A swap that could not be confirmed is confirmed after this time."""
UNFINISHED_SECONDS = 30.0
"""A copy that a leader has not confirmed for so long is not under way: its swap has failed. The first leader may take
twenty seconds."""


class GoingOver(NotLeader):
    """Nothing was stored: the meta state is going over to another back-end. It may be tried again."""


class _StateInUse(WatchedState):
    """The meta state of the back-end in use."""

    def __init__(self, owner: ElectionInUse) -> None:
        super().__init__(owner.write)
        self._owner = owner

    def read(self, key: str) -> Versioned | None:
        """See :class:`slotreeve.ports.MetaState`."""
        return self._owner.back_end.read(key)

    def keys(self) -> Sequence[str]:
        """See :class:`slotreeve.ports.MetaState`."""
        return self._owner.back_end.keys()


class ElectionInUse:
    """Implements :class:`slotreeve.ports.Election` over the back-end in use, and goes over to another one where the
    fence of this one says so.

    Attributes:
        back_end: the one in use.
        beside: another one that runs for a swap, and those that were in use before.
        configured: the name that the configuration file has.
        unsure_term: the term in which a write ended without a known result; 0: none did.
        writes_under_way: writes of this node that have not ended.
    """

    def __init__(
        self, configured: str, election: Election, back_ends: BackEnds, clock: Clock, supervisor: Supervisor
    ) -> None:
        self.configured, self.back_end = configured, BackEnd(configured, election)
        self.beside = BackEndsBeside(back_ends, self._reported, clock, supervisor)
        self._clock, self._supervisor = clock, supervisor
        self._state = _StateInUse(self)
        self._changed: Callable[[Leadership], None] = lambda leadership: None
        self._unwatch: Callable[[], None] = lambda: None
        self._going_to: SwapRecord | None = None
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[str | None, int, bool] = (None, 0, False)
        self._agreed_generation = 0
        self._refused_term = 0
        self._is_stopped = False
        self._unfinished: SwapRecord | None = None
        self.unsure_term = self.writes_under_way = 0

    # --- Election ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> WatchedState:
        """See :class:`slotreeve.ports.Election`."""
        return self._state

    def leadership(self) -> Leadership:
        """See :class:`slotreeve.ports.Election`. Between the fence and the other back-end nobody leads."""
        found = self.back_end.leadership()
        if self._is_in_force:
            return found
        return Leadership(None, found.term, False, 0.0, "the meta state goes over to another election")

    def counters(self) -> dict[str, int]:
        """See :class:`slotreeve_machines.leadership.CountingElection`."""
        election = self.back_end.election
        return election.counters() if isinstance(election, CountingElection) else {}

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """See :class:`slotreeve.ports.Election`."""
        self._changed = changed
        await self.back_end.start(self._reported)
        self._unwatch = self.back_end.election.state.watch(self._stored)
        self._look()

    async def resign(self) -> None:
        """See :class:`slotreeve.ports.Election`."""
        await self.back_end.election.resign()

    async def hand_over(self, name: str) -> None:
        """See :class:`slotreeve_servers.meta.swap.back_end.HandsOver`. Raises ElectionError, too, if it is none."""
        election = self.back_end.election
        if not isinstance(election, HandsOver):
            raise ElectionError(
                f"the election {self.back_end.name!r} chooses its next leader itself; resign without naming one"
            )
        await election.hand_over(name)

    async def stop(self) -> None:
        """See :class:`slotreeve.ports.Election`."""
        self._is_stopped = True
        await self.back_end.election.stop()
        await self.beside.stop()

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        """Write to the back-end in use; raises as :meth:`slotreeve.ports.MetaState.write`, and GoingOver."""
        if not self._is_in_force or term == self._refused_term:
            raise GoingOver(f"write to {key!r}: the meta state goes over to another back-end; try again")
        self.writes_under_way += 1
        try:
            return await self.back_end.write(key, value, expected_version, term)
        except (VersionConflict, StaleTerm):
            raise
        except SlotreeveError:
            self.unsure_term = term
            raise
        finally:
            self.writes_under_way -= 1

    # --- for swaps ---------------------------------------------------------------------------------------------------

    @property
    def _is_in_force(self) -> bool:
        """Whether this node may act on the back-end in use: no fence is known, and no copy that none has completed."""
        record = self.back_end.record
        is_complete = record.is_confirmed or 0 < record.generation <= self._agreed_generation
        return self._going_to is None and not self.back_end.is_fenced and is_complete

    @property
    def latest(self) -> tuple[str, int]:
        """The election in use as far as this node knows, and the number of the swap that led to it."""
        if self._going_to is not None:
            return self._going_to.use, self._going_to.generation
        return self.back_end.name, 0 if self.back_end.is_fenced else self.back_end.record.generation

    @property
    def generation(self) -> int:
        """Number of the last swap that this node knows of."""
        return max(self._agreed_generation, self.back_end.record.generation)

    @property
    def is_going_over(self) -> bool:
        """Whether the back-end that was in use is fenced, and the other one is not in use here yet."""
        return self._going_to is not None

    def refuse_writes(self, term: int) -> None:
        """Refuse writes of this node under ``term`` from now on; 0: refuse none."""
        self._refused_term = term

    def go_over(self, record: SwapRecord) -> None:
        """A fence names another back-end: use that one from now on. Does nothing where this node knows of that swap."""
        if record.generation <= self._agreed_generation:
            return
        self._agreed_generation = record.generation
        if record.use == self.back_end.name:
            self._going_to = None
            self._look()
            self._report()
            return
        log.warning("the election goes over from %s to %s (swap %d)", self.back_end.name, record.use, record.generation)
        self._going_to = record
        self._report()
        self._supervisor.once(f"swap {record.generation}", partial(self._go_over, record))

    # --- the back-end reports ----------------------------------------------------------------------------------------

    def _reported(self, back_end: BackEnd) -> None:
        if back_end is self.back_end and self._going_to is None:
            self._look()
            if self._going_to is None:
                self._report()

    def _report(self) -> None:
        leadership = self.leadership()
        self._last = _essentials(leadership)
        self._changed(leadership)

    def _stored(self, key: str, stored: Versioned) -> None:
        if key == KEY:
            self._look()
            if self._going_to is None and _essentials(self.leadership()) != self._last:
                self._report()
        elif (held := self.back_end.read(key)) is not None or not stored.version:
            self._state.notify(key, held or stored)

    def _look(self) -> None:
        """Act on the record of the back-end in use."""
        back_end, record = self.back_end, self.back_end.record
        if self._going_to is not None:
            return
        if back_end.is_fenced:
            self.go_over(record)
        elif record.lineage and not record.is_confirmed:
            if record.generation and record.generation <= self._agreed_generation:
                if back_end.election.leadership().leading:
                    self._supervisor.once("confirm the swap", partial(self._confirm, back_end, record))
            else:
                self._found_unfinished(back_end, record)

    def _found_unfinished(self, back_end: BackEnd, record: SwapRecord) -> None:
        """A copy may be under way: before there is a leader, a back-end may not have read all that is stored, and this
        node may have missed the swap that goes back. Meanwhile it takes nobody for the leader, and asks the others."""
        if record == self._unfinished:
            return
        self._unfinished = record
        found = (
            f"the store of {back_end.name!r} holds an unfinished copy of the meta state of {record.came_from!r}; start "
            f"with election.use = {record.came_from!r}, which knows whether the swap was completed"
        )
        log.warning("as far as is known now: %s", found)
        self._supervisor.once("an unfinished copy", partial(self._wait_for_its_end, back_end, record, found))

    async def _wait_for_its_end(self, back_end: BackEnd, record: SwapRecord, found: str) -> None:
        while back_end is self.back_end and back_end.record == record and not self._is_stopped:
            has_leader = back_end.election.leadership().leader is not None
            await self._clock.sleep(UNFINISHED_SECONDS)
            is_same = back_end is self.back_end and back_end.record == record and self._going_to is None
            if is_same and has_leader and not self._is_in_force and not self._is_stopped:
                self._supervisor.give_up(ConfigError(f"election.use: {found}"))
                return

    async def _confirm(self, back_end: BackEnd, record: SwapRecord) -> None:
        """The fence is written: from now on this back-end is in force for a server that starts with it, too."""
        while back_end is self.back_end and back_end.record == record and not self._is_stopped:
            leading = back_end.leadership()
            if not leading.leading:
                return  # the next leader does it
            try:
                await back_end.write_record(msgspec.structs.replace(record, is_confirmed=True), leading.term)
            except SlotreeveError as error:
                log.warning("swap %d is not confirmed yet: %s", record.generation, error)
                await self._clock.sleep(AGAIN_SECONDS)

    # --- going over --------------------------------------------------------------------------------------------------

    async def _go_over(self, record: SwapRecord) -> None:
        async with self._one_at_a_time:
            starting = asyncio.get_running_loop().create_task(self.beside.start_in_any_case(record.use))
            try:
                while not self._has_copy(record) and not self._is_overtaken(record):
                    if starting.done():
                        await starting
                    await self._clock.sleep(POLL_SECONDS)
            finally:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
            if self._is_overtaken(record):
                await self.beside.drop()
            else:
                self._put_in_use()

    def _has_copy(self, record: SwapRecord) -> bool:
        target = self.beside.target
        # Another one may run here: that of a former swap which failed, and whose end was not heard.
        return target is not None and target.name == record.use and target.record.generation >= record.generation

    def _is_overtaken(self, record: SwapRecord) -> bool:
        """Whether a later swap counts: this node has learned of it from another one, or reads it only now."""
        latest = self.back_end.record
        if latest.generation > record.generation:
            self.go_over(latest)
        return self._is_stopped or self._going_to is not record

    def _put_in_use(self) -> None:
        """The target is in use from now on."""
        former, target, before = self.back_end, self.beside.target, self.back_end.versions()
        assert target is not None  # it has the copy
        self._unwatch()
        self.beside.taken(former)
        self.back_end, self._going_to = target, None
        self._unwatch = target.election.state.watch(self._stored)
        for key, version in target.versions().items():
            held = target.read(key)
            if version != before.get(key) and held is not None:
                self._state.notify(key, held)
        log.warning("the election in use is %s", target.name)
        if target.name != self.configured:
            log.warning("change election.use from %r to %r before the next start", self.configured, target.name)
        self._look()
        if self._going_to is None:
            self._report()


def _essentials(leadership: Leadership) -> tuple[str | None, int, bool]:
    return leadership.leader, leadership.term, leadership.leading
