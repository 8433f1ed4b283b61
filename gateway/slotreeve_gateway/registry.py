"""The registry as the faces of a gateway see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

import msgspec
from slotreeve.errors import ModelError, RequestTimeout
from slotreeve.model.data_info import DataInfo
from slotreeve_client import Client, Lease, LeaseAnswers, Provider
from slotreeve_protocol.addresses import AddressKind, is_callable
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.leases import check_lease, check_lease_id
from slotreeve_protocol.overrides import Override, Overrides

from slotreeve_gateway.directory import ServiceDirectory
from slotreeve_gateway.lease_writes import LeaseWrites
from slotreeve_gateway.views import ServiceView, Views

DEFAULT_TTL_SECONDS = 30.0
AT_A_TIME = 500
"""So many leases are made in one turn of the event loop, which takes about 3 ms."""
VIEWS_AT_ONCE = 200
"""Services that are asked for together, where many are needed."""
T = TypeVar("T")
Registration = tuple[str, Instance, float]
"""Service, instance, and time to live in seconds."""
ChangeOverrides = Callable[[Callable[[Overrides], Overrides]], Awaitable[Overrides]]
"""Changes the operator's overrides through the meta leader."""


class Registry:
    """Services to read, and leases to register. Use it on the gateway's event loop only.

    A service is named by a data id or a whole data info id. The lease id of an instance is its ``id``.

    All methods raise ModelError where a name or a value is not good, and RequestTimeout, Backpressure, ClientError or
    ClientClosed where the registry does not do it; the message says why.

    Attributes:
        directory: the names of all services.
    """

    def __init__(
        self, client: Client, views: Views, directory: ServiceDirectory, change_overrides: ChangeOverrides
    ) -> None:
        self._client, self._views, self.directory = client, views, directory
        self._writes = LeaseWrites(client.leases)
        self._change_overrides = change_overrides

    async def view(self, service: str, beside: str = "") -> ServiceView:
        """A service, current and ready. Ask for it anew for each request, and for each turn of a stream: a view that
        nobody has asked for in ``gateway.idle_seconds`` is closed. ``beside``: the data info id of a service whose
        providers and changes belong to it."""
        return await self._views.of(service, beside)

    async def views_of(
        self, services: Iterable[str], beside: Callable[[str], str] = lambda service: ""
    ) -> list[ServiceView]:
        """The same for many services. ``beside`` gives what is watched beside each."""
        views: list[ServiceView] = []
        for part in _parts(services, VIEWS_AT_ONCE):
            asked = (self.view(service, beside(service)) for service in part)
            for view in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(view, BaseException):
                    raise view if isinstance(view, Exception) else RequestTimeout(str(view))
                views.append(view)
        return views

    def current_view(self, service: str) -> ServiceView | None:
        """A service by its data info id, at once, if it is watched already."""
        return self._views.current(service)

    async def register(self, service: str, instance: Instance, ttl_seconds: float = DEFAULT_TTL_SECONDS) -> None:
        """Register an instance as a lease, or replace it. Returns once the slot's leader and its followers have it."""
        await self._writes.register(_lease(service, instance, ttl_seconds))

    async def renew(self, service: str, instance_id: str) -> bool:
        """Begin the time to live anew. False: there is no such lease, so register it again."""
        return await self._writes.renew(*_place(service, instance_id))

    async def deregister(self, service: str, instance_id: str) -> bool:
        """End a lease now. Whether there was one."""
        return await self._writes.deregister(*_place(service, instance_id))

    async def register_many(self, registrations: Iterable[Registration]) -> LeaseAnswers:
        """Register many. What could not be reached in time is ``unanswered``, by data info id. Where one is not good,
        none is registered. Other callers are answered in between."""
        leases: list[Lease] = []
        for part in _parts(registrations, AT_A_TIME):
            leases += [_lease(*registration) for registration in part]
            await asyncio.sleep(0)
        found = LeaseAnswers()
        for some in _parts(leases, AT_A_TIME):
            answers = await self._client.leases.register_many(some)
            for name, lease_ids in answers.unanswered.items():
                found.unanswered.setdefault(name, set()).update(lease_ids)
            found.reason = answers.reason or found.reason
        return found

    async def renew_many(self, leases: Mapping[str, Iterable[str]]) -> LeaseAnswers:
        """Renew many, by service. What is not there is ``unknown``, by data info id."""
        return await self._client.leases.renew_many(leases)

    async def deregister_many(self, leases: Mapping[str, Iterable[str]]) -> LeaseAnswers:
        """End many, by service. What is not there is ``unknown``, by data info id."""
        return await self._client.leases.deregister_many(leases)

    def dump(self, prefix: str = "") -> AsyncIterator[tuple[str, tuple[Provider, ...]]]:
        """See :meth:`slotreeve_client.Client.dump`."""
        return self._client.dump(prefix)

    async def override(self, service: str, instance_id: str, override: Override | None) -> None:
        """Say what an operator wants of an instance, whatever its provider says; None: nothing any more. It is stored
        when any minority of the meta servers may be lost. Raises Unreachable, Refused as well."""
        data_info_id = DataInfo.parse(service).id
        await self._change_overrides(lambda overrides: overrides.changed(data_info_id, instance_id, override))

    async def overrides(self, service: str) -> Mapping[str, Override]:
        """What operators want of the instances of a service, by their ids, as the meta leader has it now. Raises
        Unreachable, Refused as well."""
        data_info_id = DataInfo.parse(service).id
        return (await self._change_overrides(lambda overrides: overrides)).of(data_info_id)


def _parts(items: Iterable[T], most: int) -> Iterator[list[T]]:
    left = iter(items)
    while part := list(islice(left, most)):
        yield part


def _lease(service: str, instance: Instance, ttl_seconds: float) -> Lease:
    """A lease that is good. It must be checked before it is put into one message with those of other callers."""
    if instance.address_kind is not AddressKind.NAME and not is_callable(instance.address):
        raise ModelError(
            f"address is {instance.address!r}, which nobody can call; expected the address at which others reach it"
        )
    data = (encode_instance(instance),)
    check_lease(instance.id, ttl_seconds, data, instance.zone)
    return Lease(DataInfo.parse(service).id, instance.id, data, ttl_seconds, instance.zone)


def _place(service: str, lease_id: str) -> tuple[str, str]:
    check_lease_id(lease_id)
    return DataInfo.parse(service).id, lease_id


def in_zone(instance: Instance, zone: str) -> Instance:
    """The instance, in ``zone`` where it names none."""
    return msgspec.structs.replace(instance, zone=zone) if zone and not instance.zone else instance
