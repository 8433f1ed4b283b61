"""The names of all services, for the faces that list them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Protocol
from zlib import crc32

import msgspec
from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError
from slotreeve.model.data_info import DELIMITER

from slotreeve_gateway.waiting import Waiters

log = logging.getLogger("slotreeve.gateway")

PATIENCE_SECONDS = 0.5
"""So long a caller waits for names that are newer than those that this gateway has."""
DIGESTS = 4096
"""Where two lists have the same digest, who goes from one gateway to another one may miss a change."""
LEAD_MILLISECONDS = 60_000
"""An index of a caller that is ahead of this gateway's clock by more than this is not one of ours."""
SHARE = 8
"""Between two readings that callers cannot wait for passes at least this multiple of the time that one took."""
OWN_INSTANCE = "gateway-"
"""The instance ids of services that gateways keep for themselves begin so. No list shows them."""
_OWN = f"{DELIMITER}{OWN_INSTANCE}"


class Lister(Protocol):
    """What the directory needs of a client."""

    def list(self, prefix: str = "") -> Awaitable[dict[str, int]]:
        """Number of providers by data info id."""


def is_own(data_info_id: str) -> bool:
    """Whether a service is one of the gateways' own, which lists of services do not show."""
    return _OWN in data_info_id


class ServiceDirectory:
    """All services that have providers. It is read again where somebody asks and it is older than ``seconds``; there is
    no cost while nobody asks. While the registry does not answer, it stays as it was read last.

    Attributes:
        seconds: see above.
        index: rises with each change of the names and numbers, and does not fall: milliseconds of the wall clock, and
            in its last bits a digest of the names and numbers (:data:`DIGESTS`). A gateway that is behind another one,
            or whose clock is, takes over the index that a caller has from there, if it is one of the same list.
        own: the data info ids of the services that gateways keep for themselves, as they were read last.
    """

    def __init__(self, lister: Lister, clock: Clock, seconds: float) -> None:
        self._lister, self._clock, self.seconds = lister, clock, seconds
        self._services: Mapping[str, int] = MappingProxyType({})
        self.own: frozenset[str] = frozenset()
        self._took = 0.0
        self._read_at: float | None = None
        self._tried_at = clock.now()
        self._reading: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._waiters = Waiters()
        self.index = 0

    @property
    def listed(self) -> Mapping[str, int]:
        """What :meth:`services` has returned last, without asking again."""
        return self._services

    def current(self) -> Mapping[str, int] | None:
        """The names that were read last, at once, if they are at most twice ``seconds`` old; None: they are older. When
        they are due, they are read again beside."""
        now = self._clock.now()
        if self._read_at is None or now - self._read_at > 2 * self.seconds:
            return None
        if self._reading is None and now - self._tried_at >= self.seconds:
            self._begin()
        return self._services

    async def services(self) -> Mapping[str, int]:
        """Number of providers by data info id, at most ``seconds`` old; the last ones that could be read, where the
        registry does not answer within half a second. A service without providers is not in it.

        Raises:
            RequestTimeout, ClientError, ClientClosed: nothing could be read so far.
        """
        if self._read_at is None:
            await self._read_again()
        elif self._reading is not None or self._clock.now() - self._tried_at >= self.seconds:
            reading = self._begin()
            await asyncio.wait([reading], timeout=max(0.0, self._tried_at + PATIENCE_SECONDS - self._clock.now()))
        return self._services

    async def next(self) -> Mapping[str, int]:
        """The same, read after this call. All who ask meanwhile share a reading, and readings take a small share of the
        time only.

        Raises:
            RequestTimeout, ClientError, ClientClosed: the registry does not answer.
        """
        called = self._clock.now()
        while True:
            if self._reading is None and self._read_at is not None:
                pause = min(SHARE * self._took, self.seconds)
                await self._clock.sleep(self._read_at + self._took + pause - self._clock.now())
            await self._read_again()
            if self._read_at is not None and self._read_at >= called:
                return self._services

    async def changed(self, after: int, seconds: float) -> bool:
        """Wait until ``index`` is greater than ``after``, at most so many seconds. Whether it is.

        Raises:
            RequestTimeout, ClientError, ClientClosed: as :meth:`services`.
        """
        deadline = self._clock.now() + seconds
        most = (self._milliseconds() + LEAD_MILLISECONDS) * DIGESTS
        await self.services()
        if self.index < after <= most:
            await self.next()
            if self.index < after:  # the list of the caller is newer than what was read, or the same
                digest = self.index % DIGESTS
                self.index = after if after % DIGESTS == digest else (after // DIGESTS + 1) * DIGESTS + digest
        while after <= most and self.index <= after:
            if self._following is None:
                self._following = asyncio.get_running_loop().create_task(self._follow(), name="follow the services")
            if not await self._waiters.wait(deadline - self._clock.now()):
                return self.index > after
        return True

    async def _follow(self) -> None:
        """Read again and again while anybody waits."""
        try:
            while self._waiters.count:
                if self._read_at is not None:
                    await self._clock.sleep(self._read_at + self.seconds - self._clock.now())
                try:
                    await self.next()
                except SlotreeveError:
                    await self._clock.sleep(self.seconds)
        finally:
            self._following = None

    async def _read_again(self) -> None:
        """One reading for all who ask meanwhile. A caller that goes away does not end it."""
        await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        if self._reading is None:
            self._tried_at = self._clock.now()
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="read the services")
            self._reading.add_done_callback(self._done)
        return self._reading

    def _done(self, reading: asyncio.Task[None]) -> None:
        # Those who wait are told of an error; where all have gone, it is nobody's.
        if not reading.cancelled() and (error := reading.exception()) is not None and self._read_at is not None:
            seconds = self._clock.now() - self._read_at
            log.warning("the names of services stay those of %.0f s ago: %s", seconds, error)

    async def _read(self) -> None:
        began = self._clock.now()
        try:
            found = await self._lister.list()
        finally:
            self._reading, self._tried_at = None, self._clock.now()
        self._took = self._clock.now() - began
        self._read_at = self._tried_at = began
        services = {name: count for name, count in sorted(found.items()) if count and not is_own(name)}
        own = frozenset(name for name, count in found.items() if count and is_own(name))
        if services != self._services or own != self.own or not self.index:
            self._services, self.own = MappingProxyType(services), own
            digest = crc32(msgspec.msgpack.encode((services, sorted(own)))) % DIGESTS
            self.index = max(self.index // DIGESTS + 1, self._milliseconds()) * DIGESTS + digest
            self._waiters.wake()

    def _milliseconds(self) -> int:
        return self._clock.wall_ms()
