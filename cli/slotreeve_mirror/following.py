"""A mirror at work: what its source shows is registered, renewed, and ended."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from contextlib import aclosing, suppress

from slotreeve.clock import Clock
from slotreeve.errors import ClientError, RequestTimeout, SlotreeveError, Unreachable
from slotreeve_client import Client

from slotreeve_mirror.mirror import HELD_SECONDS, LeasePlace, MirrorCore, Seen, is_imported
from slotreeve_mirror.source import MirrorSource, first_of

log = logging.getLogger("slotreeve.mirror")
TURN_SECONDS = 1.0
"""How long until what failed is tried again."""
RENEWALS = 3
"""Renewals within a time to live: two may fail."""


class Mirror:
    """Keeps the leases of a source. Several mirrors of one source may run: they register the same leases.

    While the source does not answer, everything stays as it was. When a mirror ends, its leases live on for their time
    to live. One event loop.
    """

    def __init__(
        self, source: MirrorSource, core: MirrorCore, client: Client, clock: Clock, report: Callable[[str], None]
    ) -> None:
        self._source, self._core, self._client, self._clock, self._report = source, core, client, clock, report
        self._seen: Seen | None = None
        self._to_register: set[LeasePlace] = set()
        self._to_end: set[LeasePlace] = set()
        self._held = 0
        self._at_work = asyncio.Lock()

    async def import_once(self) -> int:
        """Register what the source shows now; how many instances that are.

        Raises:
            Unreachable, RequestError: the source cannot be read.
            RequestTimeout: a leader has not answered; the message says of how many leases.
        """
        self._look(await first_of(self._source))
        await self._work()
        if self._to_register:
            some, every = len(self._to_register), len(self._core.imported)
            raise RequestTimeout(f"no leader has answered in time for {some} of {every} instances; try again")
        return len(self._core.imported)

    async def follow(self, ttl_seconds: float) -> None:
        """Keep ours equal to the source until cancelled. ``ttl_seconds`` is that of the leases.

        Raises:
            RequestError: the source answers something that is not understood.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read())
            tasks.create_task(self._renew(ttl_seconds / RENEWALS))
            tasks.create_task(self._try_again())

    async def _read(self) -> None:
        while True:
            try:
                async with aclosing(self._source.states()) as states:
                    async for seen in states:
                        self._look(seen)
                        await self._work()
            except Unreachable as error:
                self._report(f"{error}; what was imported stays")
            await self._clock.sleep(TURN_SECONDS)

    def _look(self, seen: Seen) -> None:
        self._seen = seen
        changes = self._core.look(seen, self._clock.now())
        registered = {LeasePlace(lease.service, lease.lease_id) for lease in changes.register}
        self._to_register |= registered
        self._to_end = (self._to_end | {*changes.end}) - self._core.imported.keys()
        self._to_register &= self._core.imported.keys()
        if registered or changes.end:
            every, new, gone = len(self._core.imported), len(registered), len(changes.end)
            self._report(f"{every} instances: {new} new or changed, {gone} gone")
        if changes.held and not self._held:
            self._report(f"{changes.held} instances vanished at once; they are kept for {HELD_SECONDS:g} s")
        self._held = changes.held

    async def _try_again(self) -> None:
        while True:
            await self._clock.sleep(TURN_SECONDS)
            if self._held and self._seen is not None:
                self._look(self._seen)
            await self._work()

    async def _work(self) -> None:
        """Register and end what is still to be done; what fails stays to be done."""
        async with self._at_work:
            with suppress(RequestTimeout, ClientError):
                await self._register()
                await self._end()

    async def _register(self) -> None:
        if wanted := self._to_register & self._core.imported.keys():
            answers = await self._client.leases.register_many(self._core.leases(wanted))
            self._to_register -= wanted - _places(answers.unanswered)

    async def _end(self) -> None:
        services = defaultdict[str, set[str]](set)
        for place in self._to_end:
            services[place.service].add(place.lease_id)
        for service, lease_ids in services.items():
            providers = await self._client.get(service)
            ours = {each.said.id for each in providers if each.said is not None and is_imported(each.said)}
            answers = await self._client.leases.deregister_many({service: lease_ids & ours})
            done = {LeasePlace(service, lease_id) for lease_id in lease_ids}
            self._to_end -= done - _places(answers.unanswered)

    async def _renew(self, pause_seconds: float) -> None:
        while True:
            await self._clock.sleep(pause_seconds)
            services = defaultdict[str, list[str]](list)
            for place in self._core.imported:
                services[place.service].append(place.lease_id)
            try:
                answers = await self._client.leases.renew_many(services)
            except SlotreeveError as error:
                log.warning("leases were not renewed, which is tried again in %g s: %s", pause_seconds, error)
                continue
            self._to_register |= _places(answers.unknown)


def _places(answers: dict[str, set[str]]) -> set[LeasePlace]:
    return {LeasePlace(service, lease_id) for service, lease_ids in answers.items() for lease_id in lease_ids}
