"""The steps of a swap that every meta server takes when the leader orders them."""

from __future__ import annotations

from slotreeve.clock import Clock
from slotreeve.errors import ElectionError, NotLeader, SlotreeveError
from slotreeve.ports import Election
from slotreeve_protocol.meta_messages import SwapOrder, SwapStep

from slotreeve_servers.meta.swap.back_end import BackEnd, HasObservers, NamesObservers, NeedsAgreement, TriesOut
from slotreeve_servers.meta.swap.election_in_use import POLL_SECONDS, ElectionInUse
from slotreeve_servers.meta.swap.swap_record import SwapRecord

CATCH_UP_SECONDS = 2.0
"""A follower of the election in use has so long to read the newest meta state, before it copies it."""


class SwapSteps:
    """One meta server's part of a swap. One step at a time."""

    def __init__(self, election: ElectionInUse, clock: Clock) -> None:
        self._election, self._clock = election, clock
        self._is_copying = False

    async def take(self, order: SwapOrder) -> None:
        """Take one step.

        Raises:
            SlotreeveError: it cannot be taken; the message says why.
        """
        if order.step is SwapStep.TRY:
            await self._try(order.to, order.agreement)
        elif order.step is SwapStep.START:
            await self._election.beside.start(order.to)
        elif order.step is SwapStep.COPY:
            await self._copy(order)
        elif order.step is SwapStep.GO_OVER:
            self._election.go_over(SwapRecord(order.lineage, order.generation, order.to))
        elif not self._election.is_going_over:
            await self._election.beside.drop()

    def agreement(self, name: str) -> str:
        """What the options of the election ``name`` must have in common with those of the other meta servers; empty if
        nothing, or if it cannot be built."""
        try:
            return _agreement(self._election.beside.build(name))
        except SlotreeveError:
            return ""

    async def _try(self, name: str, agreement: str) -> None:
        election = self._election
        if name == election.back_end.name:
            raise ElectionError(f"{name!r} is the election in use already")
        if election.is_going_over:
            raise ElectionError("a swap is under way already")
        await election.beside.stop()
        built = election.beside.build(name)
        if agreement and (own := _agreement(built)) != agreement:
            raise ElectionError(f"the options of {name!r} are not those of the leader: {own} here, {agreement} there")
        self._check_role(name, built)
        if isinstance(built, TriesOut):
            await built.try_out()

    def _check_role(self, name: str, built: Election) -> None:
        """An observer stays one, unless the options of the other election say otherwise."""
        present = self._election.back_end
        if not (isinstance(present.election, HasObservers) and present.election.is_observer):
            return
        if isinstance(built, NamesObservers) and not built.names_observers:
            raise ElectionError(
                f"this meta server never leads in {present.name!r}, and could in {name!r}; let observers of "
                f"[election.{name}] name the meta servers that shall not lead there"
            )

    async def _copy(self, order: SwapOrder) -> None:
        target, source = self._election.beside.target, self._election.back_end
        if target is None or target.name != order.to or not target.leadership().leading:
            raise NotLeader(f"this meta server does not lead in the election {order.to!r}")
        if self._is_copying:
            raise ElectionError("the meta state is being copied already")
        self._is_copying = True
        try:
            await self._catch_up(source, order.digest)
            record = SwapRecord(
                order.lineage, order.generation, order.to, source.name, is_confirmed=False, term=order.term
            )
            await target.copy_from(source, record)
        finally:
            self._is_copying = False
        if order.digest and target.digest() != order.digest:
            raise ElectionError(f"the meta state in {order.to!r} is not equal to that in {source.name!r}")

    async def _catch_up(self, source: BackEnd, digest: str) -> None:
        deadline = self._clock.now() + CATCH_UP_SECONDS
        while digest and source.digest() != digest:
            if self._clock.now() > deadline:
                raise ElectionError(f"this meta server lags behind in the election {source.name!r}")
            await self._clock.sleep(POLL_SECONDS)


def _agreement(election: Election) -> str:
    return election.agreement if isinstance(election, NeedsAgreement) else ""
