"""Which service an id is registered in: Consul's clients renew and deregister by the id alone."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from slotreeve.errors import RequestTimeout
from slotreeve.model.data_info import DataInfo
from slotreeve_gateway import Caller, LeaseAnswers, Registry, Right, ServiceDirectory
from slotreeve_protocol.instance import Instance

from slotreeve_face_consul.stand_ins import services_with_stand_ins, stand_ins_of

MOST_REMEMBERED = 200_000
SEARCHES_AT_ONCE = 32
MOST_SEARCHES = 4_000
"""Beyond so many that are under way or wait, an id counts as unknown: its client registers again, which is cheaper."""


@dataclass(frozen=True, slots=True)
class FoundLease:
    """Where the lease of an id is. ``is_late``: it has ended, and its stand-in is there."""

    service: str
    is_late: bool


class InstancePlaces:
    """Finds the service of an id. What it remembers only saves a search: any gateway finds every id.

    What it remembers is each caller's own: who registers somebody else's id in a service of its own changes nothing for
    them. An id that is remembered costs a renewal, which clients want anyway. A search asks the leaders of the slots of
    all services that the caller may register in whether they have such a lease, in one message: first those services
    whose name the id begins with, as is the custom.
    """

    def __init__(self, registry: Registry, group: str) -> None:
        self._registry, self._group = registry, group
        self._services: OrderedDict[tuple[str, str], str] = OrderedDict()  # by the caller and the id
        self._searching = 0
        self._turns = asyncio.Semaphore(SEARCHES_AT_ONCE)

    def remember(self, caller: Caller, service_id: str, service: str) -> None:
        """The caller has registered an id in a service."""
        place = caller.author, service_id
        self._services.pop(place, None)
        self._services[place] = service
        if len(self._services) > MOST_REMEMBERED:
            self._services.popitem(last=False)

    def known(self, caller: Caller, service_id: str) -> str | None:
        """The service that an id of the caller was in when it was seen last, if it is remembered."""
        return self._services.get((caller.author, service_id))

    def services(self) -> set[str]:
        """The services of all ids that are remembered."""
        return set(self._services.values())

    def forget(self, caller: Caller, service_id: str) -> None:
        """The caller has deregistered an id."""
        self._services.pop((caller.author, service_id), None)

    async def renewed(self, service_id: str, caller: Caller) -> FoundLease | None:
        """The service of an id, whose lease and stand-in were renewed; None: there is neither.

        Raises:
            ModelError: it is no id.
            RequestTimeout, ClientError: a leader has not answered, so that it may or may not exist.
        """
        Instance("localhost", id=service_id)  # what no instance can have as its id must go nowhere
        service = self.known(caller, service_id)
        if service is not None and caller.may(Right.REGISTER, service):
            remembered = await self._renew(service, service_id)
            if remembered is not None:
                return remembered
        self.forget(caller, service_id)
        found = await self._search(service_id, caller)
        if found is not None:
            self.remember(caller, service_id, found.service)
        return found

    async def _renew(self, service: str, service_id: str) -> FoundLease | None:
        itself, late = await asyncio.gather(
            self._registry.renew(service, service_id),
            self._registry.renew(stand_ins_of(service), service_id),
            return_exceptions=True,
        )
        if isinstance(itself, BaseException):
            raise itself
        if itself:
            return FoundLease(service, False)  # also if the leader of its stand-in has not answered
        if isinstance(late, BaseException):
            raise late
        return FoundLease(service, True) if late else None

    async def _search(self, service_id: str, caller: Caller) -> FoundLease | None:
        directory = self._registry.directory
        await directory.services()
        asked = self.candidates(caller)
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
            await directory.next()
            found = await self._ask(service_id, set(self.candidates(caller)) - set(asked))
        return found

    def candidates(self, caller: Caller, newest: Iterable[str] = ()) -> list[str]:
        """The services that the caller may register in, as they were listed last, and ``newest``."""
        listed = listed_of_group(self._registry.directory, self._group, newest)
        return [name for name in listed if caller.may(Right.REGISTER, name)]

    async def holders(self, service_ids: Iterable[str], caller: Caller, newest: Iterable[str]) -> dict[str, list[str]]:
        """The services that have a lease or a stand-in of an id, by the id. ``newest``: services that may not be in the
        list of all yet.

        Raises:
            RequestTimeout, ClientError: a leader has not answered, so that there may be more.
        """
        ids, found = list(service_ids), dict[str, list[str]]()
        candidates = self.candidates(caller, newest)
        answers = await self._registry.renew_many(_asked(candidates, ids))
        if answers.unanswered:
            raise RequestTimeout(answers.reason)
        for name in candidates:
            for service_id in ids:
                if _has(answers, name, service_id) or _has(answers, stand_ins_of(name), service_id):
                    found.setdefault(service_id, []).append(name)
        return found

    async def _ask(self, service_id: str, services: Iterable[str]) -> FoundLease | None:
        likely: list[str] = []
        others: list[str] = []
        for name in services:
            (likely if service_id.startswith(DataInfo.parse(name).data_id) else others).append(name)
        for part in (likely, others):
            if not part:
                continue
            answers = await self._registry.renew_many(_asked(part, [service_id]))
            there = [FoundLease(name, False) for name in part if _has(answers, name, service_id)]
            late = [FoundLease(name, True) for name in part if _has(answers, stand_ins_of(name), service_id)]
            if there or (late and not answers.unanswered):
                return max(there or late, key=lambda lease: (len(lease.service), lease.service))
            if answers.unanswered:
                raise RequestTimeout(answers.reason)
        return None


def _asked(services: Iterable[str], ids: Iterable[str]) -> dict[str, Iterable[str]]:
    return {place: ids for name in services for place in (name, stand_ins_of(name))}


def _has(answers: LeaseAnswers, place: str, service_id: str) -> bool:
    return service_id not in answers.unknown.get(place, ()) and service_id not in answers.unanswered.get(place, ())


def listed_of_group(directory: ServiceDirectory, group: str, newest: Iterable[str] = ()) -> list[str]:
    """The services of a group as they were listed last, also those whose instances are all late, and ``newest``."""
    late = services_with_stand_ins(directory.own, group)
    return of_group(sorted({*directory.listed, *late, *newest}), group)


def of_group(services: Iterable[str], group: str) -> list[str]:
    """The services of a group, of the instance id that Consul's names stand for."""
    suffix = DataInfo("x", group=group).id[1:]
    return [name for name in services if name.endswith(suffix)]
