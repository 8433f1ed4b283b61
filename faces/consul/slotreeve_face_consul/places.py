"""Which service an id is registered in: Consul's clients renew and deregister by the id alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from slotreeve.errors import RequestTimeout
from slotreeve.model.data_info import DataInfo
from slotreeve_gateway import Caller, Registry, Right
from slotreeve_protocol.instance import Instance

MOST_REMEMBERED = 200_000
SEARCHES_AT_ONCE = 32
MOST_SEARCHES = 4_000
"""Beyond so many that are under way or wait, an id counts as unknown: its client registers again, which is cheaper."""


class InstancePlaces:
    """Finds the service of an id. What it remembers only saves a search: any gateway finds every id.

    An id that is remembered costs a renewal, which clients want anyway. A search asks the leaders of the slots of all
    services that the caller may register in whether they have such a lease, in one message: first those services whose
    name the id begins with, as is the custom.
    """

    def __init__(self, registry: Registry, group: str) -> None:
        self._registry, self._group = registry, group
        self._services: dict[str, str] = {}
        self._searching = 0
        self._turns = asyncio.Semaphore(SEARCHES_AT_ONCE)

    def remember(self, service_id: str, service: str) -> None:
        """An id has been registered in a service."""
        self._services.pop(service_id, None)
        self._services[service_id] = service
        if len(self._services) > MOST_REMEMBERED:
            del self._services[next(iter(self._services))]

    def services(self) -> set[str]:
        """The services of all ids that are remembered."""
        return set(self._services.values())

    def forget(self, service_id: str) -> None:
        """An id has been deregistered."""
        self._services.pop(service_id, None)

    async def renewed(self, service_id: str, caller: Caller) -> str | None:
        """The service of an id, whose lease was renewed; None: there is no such lease.

        Raises:
            ModelError: it is no id.
            Forbidden: the caller must not register in the service.
            RequestTimeout, ClientError: a leader has not answered, so that it may or may not exist.
        """
        Instance("localhost", id=service_id)  # what no instance can have as its id must go nowhere
        service = self._services.get(service_id)
        if service is not None:
            caller.require(Right.REGISTER, service)
            if await self._registry.renew(service, service_id):
                return service
            self.forget(service_id)
        found = await self._search(service_id, caller)
        if found is not None:
            self.remember(service_id, found)
        return found

    async def _search(self, service_id: str, caller: Caller) -> str | None:
        directory = self._registry.directory
        asked = self._candidates(await directory.services(), caller)
        if self._searching >= MOST_SEARCHES:
            return None
        self._searching += 1
        try:
            async with self._turns:
                found = await self._ask(service_id, asked)
        finally:
            self._searching -= 1
        if found is None:
            # A service that has been registered through another gateway just now may not be in the list yet.
            newest = self._candidates(await directory.next(), caller)
            found = await self._ask(service_id, set(newest) - set(asked))
        return found

    def _candidates(self, services: Iterable[str], caller: Caller) -> list[str]:
        return [name for name in of_group(services, self._group) if caller.may(Right.REGISTER, name)]

    async def _ask(self, service_id: str, services: Iterable[str]) -> str | None:
        likely: list[str] = []
        others: list[str] = []
        for name in services:
            (likely if service_id.startswith(DataInfo.parse(name).data_id) else others).append(name)
        for part in (likely, others):
            if not part:
                continue
            answers = await self._registry.renew_many({name: [service_id] for name in part})
            known = [name for name in part if name not in answers.unknown and name not in answers.unanswered]
            if known:
                return max(known, key=lambda name: (len(name), name))
            if answers.unanswered:
                raise RequestTimeout(answers.reason)
        return None


def of_group(services: Iterable[str], group: str) -> list[str]:
    """The services of a group, of the instance id that Consul's names stand for."""
    suffix = DataInfo("x", group=group).id[1:]
    return [name for name in services if name.endswith(suffix)]
