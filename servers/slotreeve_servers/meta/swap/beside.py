"""The back-ends that run beside the one in use: one that a swap may go over to, and those that were in use before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from slotreeve.clock import Clock
from slotreeve.errors import ConfigError, ElectionError, PluginError, SlotreeveError
from slotreeve.ports import Election

from slotreeve_servers.meta.swap.back_end import BackEnd
from slotreeve_servers.node.supervisor import Supervisor

log = logging.getLogger("slotreeve.swap")

PAUSE_SECONDS = 1.0
START_SECONDS = 15.0
LINGER_SECONDS = 5.0
"""A back-end that is not in use any more runs on for so long, so that every meta server can read its fence there."""
ABANDON_SECONDS = 60.0
"""A back-end that was started for a swap is stopped after so long without one."""


class BackEnds(Protocol):
    """What builds elections of a configuration."""

    def build(self, name: str) -> Election:
        """The election ``name``, not started.

        Raises:
            PluginError: there is none, or its options are missing or wrong.
            ConfigError, ElectionError: as its ``build``.
        """

    def names(self) -> Sequence[str]:
        """The elections that the configuration has options for."""


class _NoBackEnds:
    """Of a meta server that was made with its only election."""

    def build(self, name: str) -> Election:
        """See BackEnds."""
        raise PluginError(f"this meta server can build no election {name!r}")

    def names(self) -> Sequence[str]:
        """See BackEnds."""
        return ()


NO_BACK_ENDS: BackEnds = _NoBackEnds()


class BackEndsBeside:
    """Starts and stops them. None of them counts; ``reported`` is called when one has something to report.

    Attributes:
        target: the one that the meta state may go over to; None while there is none.
    """

    def __init__(
        self, back_ends: BackEnds, reported: Callable[[BackEnd], None], clock: Clock, supervisor: Supervisor
    ) -> None:
        self.target: BackEnd | None = None
        self._back_ends, self._reported = back_ends, reported
        self._clock, self._supervisor = clock, supervisor
        self._lingering: list[BackEnd] = []
        self._for_a_swap: BackEnd | None = None

    @property
    def names(self) -> Sequence[str]:
        """The elections that the configuration has options for."""
        return self._back_ends.names()

    def build(self, name: str) -> Election:
        """An election of the configuration, not started; raises as :meth:`BackEnds.build`."""
        return self._back_ends.build(name)

    async def start(self, name: str) -> None:
        """Run ``name`` for a swap; it is stopped again where none follows.

        Raises:
            SlotreeveError: it cannot be built or started.
        """
        if self.target is not None and self.target.name == name:
            return
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._start(name)
        except TimeoutError:
            raise ElectionError(f"the election {name!r} does not start within {START_SECONDS:g} s") from None
        self._for_a_swap = self.target
        self._supervisor.once(f"end of election {name}", partial(self._abandon_later, self.target))

    async def start_in_any_case(self, name: str) -> None:
        """Run ``name``, to which the cluster has gone over: until that succeeds, or the server gives up because it
        cannot be built."""
        self._for_a_swap = None  # the swap has followed
        while self.target is None or self.target.name != name:
            try:
                await self._start(name)
            except (ConfigError, PluginError) as error:
                self._supervisor.give_up(
                    ConfigError(
                        f"this cluster's election has gone over to {name!r}, which cannot be built here: {error}"
                    )
                )
                return
            except SlotreeveError as error:
                log.error("cannot go over to the election %s: %s", name, error)
                await self._clock.sleep(PAUSE_SECONDS)

    async def _start(self, name: str) -> None:
        await self.stop()
        started = BackEnd(name, self.build(name))
        try:
            await started.start(self._reported)
        except BaseException:
            await started.election.stop()
            raise
        self.target = started

    async def _abandon_later(self, started: BackEnd | None) -> None:
        await self._clock.sleep(ABANDON_SECONDS)
        if started is not None and started is self.target is self._for_a_swap:
            log.warning("no swap has followed; the election that was started for it stops")
            await self.drop()

    async def drop(self) -> None:
        """Stop the target."""
        target, self.target = self.target, None
        if target is not None:
            await target.election.stop()

    async def stop(self) -> None:
        """Stop all of them."""
        await self.drop()
        while self._lingering:
            await self._lingering.pop().election.stop()

    def taken(self, former: BackEnd) -> None:
        """The target is in use from now on, and ``former`` is not any more: it stops after a while."""
        self.target = None
        self._lingering.append(former)
        self._supervisor.once(f"end of election {former.name}", partial(self._stop_later, former))

    async def _stop_later(self, former: BackEnd) -> None:
        await self._clock.sleep(LINGER_SECONDS)
        if former in self._lingering:
            self._lingering.remove(former)
            await former.election.stop()
