"""The swap of the election back-end, as the meta leader carries it out (decision 17).

::

    TRY on every meta server        nothing has changed when this fails
    START the new back-end          it runs beside the old one, and elects a leader
    COPY by the leader there        while writes go on
    refuse writes, COPY the rest    the copy is compared by its digest
    write the fence                 the last write in the old back-end: from here on the new one is in force
    GO_OVER on every meta server    also those that miss this: they read the fence
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Collection
from typing import Protocol

import msgspec
from slotreeve.clock import Clock
from slotreeve.errors import ElectionError, NotLeader, SlotreeveError
from slotreeve.ports import Leadership, Message
from slotreeve_protocol.meta_messages import SwapOrder, Swapped, SwapStep

from slotreeve_servers.meta.swap.election_in_use import POLL_SECONDS, ElectionInUse
from slotreeve_servers.meta.swap.swap_record import SwapRecord
from slotreeve_servers.meta.swap.swap_steps import SwapSteps

log = logging.getLogger("slotreeve.swap")

STEP_SECONDS = 20.0
LEADER_SECONDS = 20.0
LAST_COPY_SECONDS = 3.0
"""For so long the meta state takes no writes at most, where the swap fails after all."""


class Others(Protocol):
    """The other meta servers."""

    names: list[str]

    async def ask(self, name: str, message: Message, seconds: float) -> Message:
        """The reply of one of them. Raises ElectionError, which names it."""


class Swap:
    """Swaps as one meta server leads them. One at a time.

    Args:
        node: name of this meta server.
        steps: its own part.
    """

    def __init__(self, node: str, election: ElectionInUse, steps: SwapSteps, others: Others, clock: Clock) -> None:
        self._node, self._election, self._steps, self._others, self._clock = node, election, steps, others, clock
        self._is_under_way = False
        self._asked: list[str] = []

    async def run(self, to: str, check_only: bool = False, without: Collection[str] = ()) -> Swapped:
        """Go over to the election ``to``; with ``check_only``, only find out whether every meta server could.

        Those in ``without`` are not asked. One that lives after all finds the fence in the old back-end, as one does
        that is down during a swap.

        Raises:
            NotLeader, StaleTerm: this meta server does not lead, or not any more; nothing has changed.
            SlotreeveError: it cannot be done; the election in use stays as it was.
        """
        if self._is_under_way:
            raise ElectionError("a swap is under way already")
        self._asked = self._all_but(without)
        self._is_under_way = True
        try:
            leading = self._leading()
            await self._everywhere(SwapOrder(SwapStep.TRY, to, agreement=self._steps.agreement(to)))
            if check_only:
                return Swapped(self._election.back_end.name, to, 0, len(self._election.back_end.keys()), 0.0)
            return await self._swap(to, leading.term)
        finally:
            self._is_under_way = False

    def _all_but(self, without: Collection[str]) -> list[str]:
        for name in without:
            if name not in self._others.names:
                raise ElectionError(
                    f"no swap: {name!r} is none of the other meta servers {', '.join(self._others.names)}"
                )
        return [self._node, *(name for name in self._others.names if name not in without)]

    def _leading(self) -> Leadership:
        leadership = self._election.leadership()
        if not leadership.leading:
            raise NotLeader("this meta server does not lead")
        if self._election.unsure_term == leadership.term:
            raise ElectionError(
                "it is not known whether a write of this leader was stored; `slotreeve election resign` and swap then"
            )
        return leadership

    async def _swap(self, to: str, term: int) -> Swapped:
        old = self._election.back_end
        try:
            await self._everywhere(SwapOrder(SwapStep.START, to))
            record = await self._named_record(term)
            order = SwapOrder(SwapStep.COPY, to, 0, record.lineage, term)
            await self._copy(order, LEADER_SECONDS)
            began = self._clock.now()
            self._election.refuse_writes(term)
            await self._writes_ended()
            number = self._election.generation + 1
            last = msgspec.structs.replace(order, generation=number, digest=old.digest())
            await self._copy(last, LAST_COPY_SECONDS)
            if self._leading().term != term:
                raise NotLeader("this meta server leads in another term than at the begin of the swap")
        except Exception:
            self._election.refuse_writes(0)
            await self._try_everywhere(SwapOrder(SwapStep.ABANDON, to))
            raise
        fence = msgspec.structs.replace(record, generation=number, use=to)
        await self._write_fence(fence, term)
        self._election.go_over(fence)
        await self._try_everywhere(SwapOrder(SwapStep.GO_OVER, to, number, record.lineage))
        await self._until_another_leads(to)
        return Swapped(old.name, to, number, len(old.keys()), self._clock.now() - began)

    async def _named_record(self, term: int) -> SwapRecord:
        """The record of the back-end in use; the first swap of a cluster names its lineage."""
        old = self._election.back_end
        if not old.record.lineage:
            await old.write_record(SwapRecord(uuid.uuid4().hex, 0, old.name), term)
        return old.record

    async def _write_fence(self, fence: SwapRecord, term: int) -> None:
        try:
            await self._election.back_end.write_record(fence, term)
        except SlotreeveError as error:
            # Stored or not: this leader writes nothing any more, and the next one finds out. Writes of this term stay
            # refused.
            await self._election.resign()
            raise ElectionError(
                f"it is not known yet whether the swap was completed ({error}); `slotreeve election in-use` shows it"
            ) from None

    async def _writes_ended(self) -> None:
        deadline = self._clock.now() + LAST_COPY_SECONDS
        while self._election.writes_under_way:
            if self._clock.now() > deadline:
                raise ElectionError("a write of the meta state does not end")
            await self._clock.sleep(POLL_SECONDS)

    async def _copy(self, order: SwapOrder, seconds: float) -> None:
        """Let the leader of the new election copy. The one that is known may be a process that has ended: then there
        will be another one."""
        deadline = self._clock.now() + seconds
        while True:
            target = self._election.beside.target
            if target is None:
                raise ElectionError(f"the election {order.to!r} was stopped here")
            leader = target.leadership().leader
            try:
                if leader is not None:
                    await self._ask(leader, order, max(POLL_SECONDS, deadline - self._clock.now()))
                    return
            except NotLeader as error:
                log.debug("nothing copied yet: %s", error)
            if self._clock.now() > deadline:
                raise ElectionError(f"the election {order.to!r} has no leader within {seconds:g} s")
            await self._clock.sleep(POLL_SECONDS)

    async def _until_another_leads(self, to: str) -> None:
        deadline = self._clock.now() + LEADER_SECONDS
        while self._election.back_end.name != to or self._election.leadership().leader is None:
            if self._clock.now() > deadline:
                raise ElectionError(f"the election in use is {to!r} now, but it has no leader yet")
            await self._clock.sleep(POLL_SECONDS)

    # --- orders ------------------------------------------------------------------------------------------------------

    async def _ask(self, name: str, order: SwapOrder, seconds: float) -> None:
        if name == self._node:
            try:
                await self._steps.take(order)
            except NotLeader:
                raise
            except SlotreeveError as error:
                raise ElectionError(f"{name}: {error}") from None
        else:
            await self._others.ask(name, order, seconds)

    async def _try_everywhere(self, order: SwapOrder) -> list[BaseException]:
        asked = (self._ask(name, order, STEP_SECONDS) for name in self._asked)
        done = await asyncio.gather(*asked, return_exceptions=True)
        failures = [error for error in done if error is not None]
        for error in failures:
            log.warning("step %s of a swap to %s: %s", order.step.name, order.to, error)
        return failures

    async def _everywhere(self, order: SwapOrder) -> None:
        """Every meta server takes this step, or the swap ends here."""
        failures = await self._try_everywhere(order)
        if failures:
            raise ElectionError("no swap: " + "; ".join(str(error) for error in failures))
