"""A mirror at work: the source and the registry are watched, and what differs is registered, renewed and ended."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from itertools import islice

from slotreeve.clock import Clock
from slotreeve.errors import ClientError, RequestError, RequestTimeout, SlotreeveError, Unreachable
from slotreeve_client import Client, Instance, Provider, Subscription

from slotreeve_mirror.mirror import HELD_SECONDS, LeasePlace, MirrorCore
from slotreeve_mirror.source import MirrorSource, first_of

log = logging.getLogger("slotreeve.mirror")
TURN_SECONDS = 1.0
"""How long until what failed is tried again, at first."""
LONGEST_PAUSE_SECONDS = 30.0
RENEWALS = 3
"""Renewals within a time to live: two may fail."""
MOST_NAMED = 10
"""So many services are named that could not be read."""
AT_ONCE = 64
"""How many services of ours are read at a time at the start."""


class Mirror:
    """Keeps the leases of a source. Several mirrors of one source may run: they register the same leases.

    It compares what the source has with what is registered here, as a subscriber sees it, whenever either changes. What
    earlier mirrors of the source have registered is taken over. While the source does not answer, everything stays, and
    is renewed. When a mirror ends, its leases live on for their time to live. One event loop.
    """

    def __init__(
        self, source: MirrorSource, core: MirrorCore, client: Client, clock: Clock, report: Callable[[str], None]
    ) -> None:
        self._source, self._core, self._client, self._clock, self._report = source, core, client, clock, report
        self._watched: dict[str, Subscription] = {}
        self._waiting: dict[str, Subscription] = {}
        self._woken = asyncio.Event()
        self._held = 0
        self._said = ""

    async def import_once(self) -> int:
        """Register what the source shows now; how many instances that are.

        Raises:
            Unreachable, RequestError: the source cannot be read.
            RequestTimeout: not all was read or acknowledged; the message says why.
        """
        state = await first_of(self._source)
        self._core.source_shows(state)
        await self._watch()
        deadline = self._clock.now() + LONGEST_PAUSE_SECONDS
        while self._waiting:
            if self._clock.now() > deadline:
                raise RequestTimeout(
                    f"the session servers have not said within {LONGEST_PAUSE_SECONDS:g} s what is registered; "
                    "is there one at this address, and does it take this key?"
                )
            await self._watch()
        registered, refused = await self._register(self._core.changes(self._clock.now()).register)
        if refused:
            raise RequestTimeout(f"of {len(state.instances)} instances {registered} were registered: {refused}")
        if state.unknown:
            names = ", ".join(sorted(state.unknown)[:MOST_NAMED])
            raise RequestTimeout(
                f"{len(state.instances)} instances were registered; {len(state.unknown)} services could not be read "
                f"there: {names}"
            )
        return len(state.instances)

    async def follow(self, ttl_seconds: float, admits: Callable[[str], bool]) -> None:
        """Keep ours equal to the source until cancelled.

        Args:
            ttl_seconds: that of the leases.
            admits: of which services, by their data info ids, earlier mirrors may have registered some.
        """
        tasks = [
            asyncio.create_task(each)
            for each in (self._read(), self._compare(), self._renew(ttl_seconds / RENEWALS), self._adopt(admits))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- the source ------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        pause = TURN_SECONDS
        while True:
            try:
                async with aclosing(self._source.states()) as states:
                    async for state in states:
                        if pause > TURN_SECONDS:
                            self._report("the source answers again")
                        pause = TURN_SECONDS
                        self._core.source_shows(state)
                        self._woken.set()
            except (Unreachable, RequestError) as error:
                if pause == TURN_SECONDS:
                    self._report(f"{error}; what was imported stays")
                self._core.source_is_silent()
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    # --- the registry ----------------------------------------------------------------------------------------------

    async def _adopt(self, admits: Callable[[str], bool]) -> None:
        """Find what earlier mirrors of this source have registered."""
        found = None
        while found is None:
            try:
                found = [name for name in await self._client.list() if admits(name)]
                names = iter(found)
                while part := [*islice(names, AT_ONCE)]:
                    for name, providers in zip(part, await asyncio.gather(*map(self._client.get, part)), strict=True):
                        if name not in self._watched and self._core.is_imported(instances := _instances(providers)):
                            self._core.adopts(name, instances)
            except (RequestTimeout, ClientError) as error:
                log.warning("what was imported before is not known yet: %s", error)
                found = None
                await self._clock.sleep(TURN_SECONDS)
        self._woken.set()

    async def _watch(self) -> None:
        """Subscribe to the services that matter. Waits a moment for what they are like."""
        wanted = self._core.services
        for name in self._watched.keys() - wanted:
            self._watched.pop(name).unsubscribe()
            self._waiting.pop(name, None)
            self._core.registry_forgets(name)
        for name in wanted - self._watched.keys():
            self._watched[name] = self._waiting[name] = self._client.subscribe(name, self._seen)
        with suppress(TimeoutError):
            async with asyncio.timeout(TURN_SECONDS):
                await asyncio.gather(*(each.ready() for each in self._waiting.values()))
        for name in [name for name, each in self._waiting.items() if each.is_ready]:
            self._seen(self._waiting.pop(name))  # a service that nobody provides is no change

    def _seen(self, subscription: Subscription) -> None:
        self._core.registry_shows(subscription.data_info_id, _instances(subscription.instances))
        self._woken.set()

    async def _compare(self) -> None:
        while True:
            self._woken.clear()
            await self._watch()
            changes = self._core.changes(self._clock.now())
            registered, refused = await self._register(changes.register)
            ended, also_refused = await self._end(changes.end)
            self._tell(registered, ended, refused or also_refused)
            if changes.held and not self._held:
                self._report(f"{changes.held} instances vanished at once; they are kept for {HELD_SECONDS:g} s")
            self._held = changes.held
            waiting = asyncio.create_task(self._woken.wait())
            turn = asyncio.create_task(self._clock.sleep(TURN_SECONDS))
            try:
                # Held instances, and what was refused or not seen here yet, are looked at again.
                await asyncio.wait({waiting, turn}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                turn.cancel()

    def _tell(self, registered: int, ended: int, refused: str) -> None:
        if registered or ended:
            every = sum(1 for _ in self._core.imported)
            self._report(f"{registered} registered, {ended} ended; {every} before")
        if refused != self._said:
            self._report(refused or "the registry takes registrations again")
            self._said = refused

    async def _register(self, places: list[LeasePlace]) -> tuple[int, str]:
        """How many were registered, and why the others were not."""
        if not places:
            return 0, self._said
        try:
            answers = await self._client.leases.register_many(self._core.leases(places))
        except SlotreeveError as error:
            self._core.failed(places)
            return 0, f"the registry does not take registrations: {error}"
        missed = _places(answers.unanswered)
        self._core.failed(missed)
        reason = (
            f"{len(missed)} registrations were not taken: {answers.reason or 'no leader answered'}" if missed else ""
        )
        return len(places) - len(missed), reason

    async def _end(self, places: list[LeasePlace]) -> tuple[int, str]:
        """How many were ended, and why the others were not."""
        if not places:
            return 0, ""
        try:
            # The leaders are asked once more: the application may have registered itself a moment ago.
            imported: dict[str, list[str]] = {}
            for service, lease_ids in _by_service(places).items():
                found = [each for each in _instances(await self._client.get(service)) if self._core.is_imported([each])]
                imported[service] = [each.id for each in found if each.id in lease_ids]
            answers = await self._client.leases.deregister_many(imported)
        except SlotreeveError as error:
            self._core.failed(places)
            return 0, f"the registry ends no registrations: {error}"
        missed = _places(answers.unanswered)
        self._core.failed(missed)
        return sum(map(len, imported.values())) - len(missed), ""

    async def _renew(self, pause_seconds: float) -> None:
        while True:
            await self._clock.sleep(pause_seconds)
            try:
                await self._client.leases.renew_many(_by_service(self._core.imported))
            except SlotreeveError as error:
                log.warning("leases were not renewed, which is tried again in %g s: %s", pause_seconds, error)


def _instances(providers: Iterable[Provider]) -> list[Instance]:
    return [each.said for each in providers if each.said is not None]


def _by_service(places: Iterable[LeasePlace]) -> dict[str, list[str]]:
    found = defaultdict[str, list[str]](list)
    for place in places:
        found[place.service].append(place.lease_id)
    return dict(found)


def _places(answers: dict[str, set[str]]) -> set[LeasePlace]:
    return {LeasePlace(service, lease_id) for service, lease_ids in answers.items() for lease_id in lease_ids}
