"""Instances that have been registered again under another name of their service: the former ones end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice

from slotreeve.clock import Clock
from slotreeve.errors import ClientError, RequestTimeout, SlotreeveError
from slotreeve_gateway import Caller, Registry, Right
from slotreeve_protocol.instance import Instance

from slotreeve_face_consul.places import InstancePlaces
from slotreeve_face_consul.registrations import TTL_KEY
from slotreeve_face_consul.stand_ins import said, stand_ins_of

log = logging.getLogger("slotreeve.gateway")

MOST_WAITING = 10_000
"""Instances that wait to be looked for. Beyond that the newest of the caller with the most is not, and its namesakes
end with their leases."""
AGAIN_SECONDS = 1.0
"""Pause where the registry does not answer."""
LEASES_AT_ONCE = 20_000
"""Leases in one question: ids times services."""


@dataclass(frozen=True, slots=True)
class _Registered:
    service: str
    instance: Instance
    caller: Caller


class FormerNames:
    """Ends what has the id and the address of an instance that was registered just now, in another service.

    An agent of Consul stands for one machine and knows each id once, so the new registration takes the old one's place.
    A gateway stands for all machines, so the address must be the same, too. Where this gateway has seen the id before,
    the caller waits for it; else the leaders of all slots are asked beside, with a small share of the time. There
    callers take turns, and an error ends nobody else's search; what the registry has not answered is asked again. What
    was registered again or has ended meanwhile is not looked for any more.

    Args:
        end: ends an instance of a service by its id.
    """

    def __init__(
        self, registry: Registry, places: InstancePlaces, clock: Clock, end: Callable[[str, str], Awaitable[None]]
    ) -> None:
        self._registry, self._places, self._clock, self._end = registry, places, clock, end
        # By author and id; the first author is the next one.
        self._waiting: dict[str, dict[str, _Registered]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Stop looking."""
        self._waiting.clear()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def end(self, service: str, instance: Instance, caller: Caller) -> None:
        """End the namesake of an instance in a service, if a client of Consul registered it and the caller may."""
        if not caller.may(Right.REGISTER, service):
            return
        view = await self._registry.view(service, stand_ins_of(service))
        found = said(view).get(instance.id)
        if found is not None and found.address == instance.address and TTL_KEY in found.metadata:
            await self._end(service, instance.id)

    def look_for(self, service: str, instance: Instance, caller: Caller) -> None:
        """Look for namesakes of an instance in all services, beside."""
        self._waiting.setdefault(caller.author, {})[instance.id] = _Registered(service, instance, caller)
        if sum(map(len, self._waiting.values())) > MOST_WAITING:
            max(self._waiting.values(), key=len).popitem()
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="former names")

    def forget(self, caller: Caller, instance_id: str) -> None:
        """The caller registers the id again, or has deregistered it: look for no namesake of what it was before."""
        theirs = self._waiting.get(caller.author, {})
        theirs.pop(instance_id, None)
        if not theirs:
            self._waiting.pop(caller.author, None)

    async def _look(self) -> None:
        try:
            while self._waiting:
                began, author = self._clock.now(), next(iter(self._waiting))
                try:
                    await self._look_for_some(author)
                except (RequestTimeout, ClientError) as error:
                    log.info("former names of instances are looked for later: %s", error)
                    await self._clock.sleep(AGAIN_SECONDS)
                except Exception as error:
                    self._waiting.pop(author, None)
                    what = f"former names of what {author} registered are not looked for"
                    is_defect = not isinstance(error, SlotreeveError)
                    log.warning("%s: %s; they end with their leases", what, error, exc_info=is_defect)
                await self._clock.sleep(self._clock.now() - began)
        finally:
            self._looking = None

    async def _look_for_some(self, author: str) -> None:
        """Raises RequestTimeout, ClientError: the registry has not answered; what is not found yet still waits."""
        theirs = self._waiting[author] = self._waiting.pop(author)  # the others have their turns first
        await self._registry.directory.services()
        some = max(1, LEASES_AT_ONCE // (1 + 2 * len(self._registry.directory.listed)))
        by_caller: dict[int, list[_Registered]] = {}
        for one in islice(theirs.values(), some):
            by_caller.setdefault(id(one.caller), []).append(one)
        for same in by_caller.values():
            own = {one.service for one in same}
            holders = await self._places.holders([one.instance.id for one in same], same[0].caller, own)
            for one in same:
                if theirs.get(one.instance.id) is not one:
                    continue
                self.forget(one.caller, one.instance.id)
                services = holders.get(one.instance.id, [])
                # Where it has gone itself, somebody has registered it elsewhere through another gateway.
                for service in services if one.service in services else ():
                    if service != one.service:
                        await self.end(service, one.instance, one.caller)
