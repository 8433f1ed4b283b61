"""Services and their health, each answer encoded once for all who wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slotreeve.model.data_info import DataInfo
from slotreeve_gateway import Caller, Gateway, Right, ServiceView
from slotreeve_protocol.instance import Instance

from slotreeve_face_consul.answers import (
    Json,
    agent_service,
    catalog_entry,
    checks,
    chosen,
    encoded,
    health_entry,
    node,
)
from slotreeve_face_consul.options import ConsulOptions
from slotreeve_face_consul.places import listed_of_group
from slotreeve_face_consul.queries import ConsulQuery
from slotreeve_face_consul.stand_ins import shown, stand_ins_of


class CatalogPages:
    """The bodies of the answers about services. Each method of a list of services shows those that the caller may see.

    All methods raise RequestTimeout, Backpressure or ClientError where the registry does not answer.
    """

    def __init__(self, gateway: Gateway, options: ConsulOptions, datacenter: str) -> None:
        self._gateway, self._options, self._datacenter = gateway, options, datacenter

    def data_info_id(self, name: str) -> str:
        """The data info id of a service of Consul. Raises ModelError."""
        return DataInfo(name, group=self._options.group).id

    async def view(self, service: str) -> ServiceView:
        """A service with the stand-ins of its instances."""
        return await self._gateway.registry.view(service, stand_ins_of(service))

    def health(self, view: ServiceView, query: ConsulQuery) -> bytes:
        """``/v1/health/service/NAME``."""
        return self._of_service(view, query, "health", lambda name, one: health_entry(name, one, self._datacenter))

    def catalog(self, view: ServiceView, query: ConsulQuery) -> bytes:
        """``/v1/catalog/service/NAME``."""
        return self._of_service(view, query, "catalog", lambda name, one: catalog_entry(name, one, self._datacenter))

    def checks(self, view: ServiceView, query: ConsulQuery) -> bytes:
        """``/v1/health/checks/NAME``."""
        name = DataInfo.parse(view.data_info_id).data_id
        found = chosen(shown(view), query, self._gateway.zone)
        return encoded([check for one in found for check in checks(name, one)])

    def _of_service(
        self, view: ServiceView, query: ConsulQuery, form: str, entry: Callable[[str, Instance], Json]
    ) -> bytes:
        def make() -> bytes:
            name = DataInfo.parse(view.data_info_id).data_id
            return encoded([entry(name, one) for one in chosen(shown(view), query, self._gateway.zone)])

        # Only questions of which there are few are kept: a caller may think of any number of tags.
        if query.near or len(query.tags) > 1 or not query.tags <= _tags(view):
            return make()
        return view.once(("consul", form, query.passing, query.tags), make)

    async def services(self, caller: Caller) -> bytes:
        """``/v1/catalog/services``: tags by name."""
        names = await self._names(caller)
        if not self._options.tags_in_lists:
            return encoded({DataInfo.parse(name).data_id: [] for name in names})
        by_name: dict[str, list[str]] = {}
        for view in await self._views(names):
            tags = view.once("consul tags", lambda: list(dict.fromkeys(t for one in shown(view) for t in one.tags)))  # noqa: B023
            by_name[DataInfo.parse(view.data_info_id).data_id] = tags
        return encoded(by_name)

    async def nodes(self, caller: Caller) -> bytes:
        """``/v1/catalog/nodes``: every address that an instance has."""
        found: dict[str, Json] = {}
        for view in await self._views(await self._names(caller)):
            for one in shown(view):
                found.setdefault(one.address, node(one, self._datacenter))
        return encoded([found[address] for address in sorted(found)])

    async def agent_services(self, caller: Caller, newest: Iterable[str]) -> bytes:
        """``/v1/agent/services``: a gateway stands for every agent, so these are all instances, by id. ``newest``:
        services that may not be in the list of all yet."""
        found: dict[str, Json] = {}
        for view in await self._views(await self._names(caller, newest)):
            name = DataInfo.parse(view.data_info_id).data_id
            for one in shown(view):
                found[one.id] = agent_service(name, one, self._datacenter)
        return encoded(found)

    async def agent_checks(self, caller: Caller, newest: Iterable[str]) -> bytes:
        """``/v1/agent/checks``: the checks of all instances, by id. ``newest`` as above."""
        found: dict[object, Json] = {}
        for view in await self._views(await self._names(caller, newest)):
            name = DataInfo.parse(view.data_info_id).data_id
            found |= {check["CheckID"]: check for one in shown(view) for check in checks(name, one)}
        return encoded(found)

    async def _names(self, caller: Caller, newest: Iterable[str] = ()) -> list[str]:
        directory = self._gateway.registry.directory
        await directory.services()
        listed = listed_of_group(directory, self._options.group, newest)
        return [name for name in listed if caller.may(Right.READ, name)]

    async def _views(self, names: Iterable[str]) -> list[ServiceView]:
        return await self._gateway.registry.views_of(names, stand_ins_of)


def _tags(view: ServiceView) -> frozenset[str]:
    return view.once("consul tag set", lambda: frozenset(t.lower() for one in shown(view) for t in one.tags))
