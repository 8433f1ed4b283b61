"""The names of all services, for the faces that list them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Protocol

from slotreeve.clock import Clock

from slotreeve_gateway.waiting import Waiters

log = logging.getLogger("slotreeve.gateway")

LEAD_MILLISECONDS = 60_000
"""An index of a caller that is ahead of this gateway's clock by more than this is not one of ours."""


class Lister(Protocol):
    """What the directory needs of a client."""

    def list(self, prefix: str = "") -> Awaitable[dict[str, int]]:
        """Number of providers by data info id."""


class ServiceDirectory:
    """All services that have providers. It is read again where somebody asks and it is older than ``seconds``; there is
    no cost while nobody asks.

    Attributes:
        index: rises with each change of the names and numbers, and does not fall: milliseconds of the wall clock. A
            gateway that is behind another one takes over the index that a caller has from there.
    """

    def __init__(self, lister: Lister, clock: Clock, seconds: float) -> None:
        self._lister, self._clock, self._seconds = lister, clock, seconds
        self._services: Mapping[str, int] = MappingProxyType({})
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._waiters = Waiters()
        self.index = 0

    async def services(self) -> Mapping[str, int]:
        """Number of providers by data info id, at most ``seconds`` old. A service without providers is not in it.

        Raises:
            RequestTimeout, ClientError, ClientClosed: the registry does not answer.
        """
        if self._read_at is None or self._clock.now() - self._read_at >= self._seconds:
            await self._read_again()
        return self._services

    async def next(self) -> Mapping[str, int]:
        """The same, read after this call: it waits until the next reading is due. Raises as :meth:`services`."""
        if self._read_at is not None:
            await self._clock.sleep(self._read_at + self._seconds - self._clock.now())
        return await self.services()

    async def changed(self, after: int, seconds: float) -> bool:
        """Wait until ``index`` is greater than ``after``, at most so many seconds. Whether it is.

        Raises:
            RequestTimeout, ClientError, ClientClosed: as :meth:`services`.
        """
        now = self._milliseconds()
        if self.index < after <= now + LEAD_MILLISECONDS:
            self.index = after
        deadline = self._clock.now() + seconds
        await self.services()
        while after <= now + LEAD_MILLISECONDS and self.index <= after:
            left = deadline - self._clock.now()
            if left <= 0:
                return False
            if self._following is None:
                self._following = asyncio.get_running_loop().create_task(self._follow(), name="follow the services")
            if await self._waiters.wait(left):
                await self.services()
        return True

    async def _follow(self) -> None:
        """Read again and again while anybody waits. Where that fails, those who wait read themselves, and say why."""
        try:
            while self._waiters.count:
                await self.next()
        except Exception:
            log.info("cannot read the names of services", exc_info=True)
            self._waiters.wake()
        finally:
            self._following = None

    async def _read_again(self) -> None:
        """One reading for all who ask meanwhile. A caller that goes away does not end it."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="read the services")
            self._reading.add_done_callback(_retrieved)
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        began = self._clock.now()
        try:
            found = await self._lister.list()
        finally:
            self._reading = None
        self._read_at = began
        services = {name: count for name, count in sorted(found.items()) if count}
        if services != self._services or not self.index:
            self._services = MappingProxyType(services)
            self.index = max(self.index + 1, self._milliseconds())
            self._waiters.wake()

    def _milliseconds(self) -> int:
        return self._clock.wall_ms()


def _retrieved(reading: asyncio.Task[None]) -> None:
    """Whoever still waits is told of an error; where all have gone, it is nobody's."""
    if not reading.cancelled():
        reading.exception()
