"""Consul as a source: blocking queries for the list of services and for each service."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from slotreeve.clock import Clock
from slotreeve.errors import RequestError, Unreachable
from slotreeve.model.data_info import DataInfo
from slotreeve_client import Health, Instance
from slotreeve_face_consul.options import ConsulOptions
from slotreeve_face_consul.registrations import registration

from slotreeve_mirror.mirror import LeasePlace, SourceState
from slotreeve_mirror.source import Reader, SourcePages, expected

WAIT_SECONDS = 60
"""How long Consul may wait for a change before it answers the same again."""
MOST_WAITING = 100
"""So many services are waited for at a time: by default an agent takes 200 connections of one address."""
TURN_SECONDS = 1
"""How long each is waited for where there are more services than that: then they take turns."""
PAUSE_SECONDS = 1.0
"""Between questions that do not wait for a change, and until a service that could not be read is asked for again."""
HEALTHS = {health.value: health for health in Health}
OWN_SERVICE = "consul"
"""The service that the servers of Consul register for themselves."""
Found = dict[LeasePlace, Instance]


class ConsulSource:
    """The services in the catalog of a Consul agent, with the worst of their checks as health."""

    def __init__(self, pages: SourcePages, clock: Clock, group: str) -> None:
        self._pages, self._clock, self._options = pages, clock, ConsulOptions(group=group)
        self._reader = Reader()
        self._names = set[str]()
        self._known: dict[str, Found | None] = {}
        self._changed = asyncio.Event()
        self._room = asyncio.Semaphore(MOST_WAITING)

    async def states(self) -> AsyncGenerator[SourceState, None]:
        """See :class:`slotreeve_mirror.source.MirrorSource`."""
        self._names, index = await self._services(0)
        ordered = sorted(self._names)
        found = await asyncio.gather(*(self._readable(name, 0) for name in ordered))
        self._known = {name: instances for name, (instances, _) in zip(ordered, found, strict=True)}
        watches: dict[str, asyncio.Task[None]] = {}
        listing = asyncio.create_task(self._list(index))
        try:
            while True:
                for name in watches.keys() - self._names:
                    watches.pop(name).cancel()
                    self._known.pop(name, None)
                yield self._state()
                for name in self._names - watches.keys():
                    watches[name] = asyncio.create_task(self._watch(name))
                    watches[name].add_done_callback(lambda _: self._changed.set())
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait({listing, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                self._changed.clear()
                for ended in [task for task in (listing, *watches.values()) if task.done()]:
                    ended.result()  # raises what has ended it
        finally:
            tasks = [listing, *watches.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _state(self) -> SourceState:
        instances = {place: one for found in self._known.values() for place, one in (found or {}).items()}
        unread = [name for name in self._names if self._known.get(name) is None]
        return SourceState(instances, frozenset(DataInfo(name, group=self._options.group).id for name in unread))

    async def _list(self, index: int) -> None:
        """Follow the list of services. Ends only by what it raises: Unreachable, RequestError."""
        while True:
            names, index = await self._services(index)
            if names != self._names:
                self._names = names
                self._changed.set()

    async def _watch(self, name: str) -> None:
        """Follow a service. It is not known while it cannot be read."""
        index = 0
        while True:
            found, index = await self._readable(name, index)
            if found != self._known.get(name):
                self._known[name] = found
                self._changed.set()
            if found is None:
                await self._clock.sleep(PAUSE_SECONDS)

    async def _services(self, index: int) -> tuple[set[str], int]:
        answer, next_index = await self._blocking("v1/catalog/services", index, WAIT_SECONDS)
        return {*expected(f"{self._pages.url}/v1/catalog/services", answer, dict)} - {OWN_SERVICE}, next_index

    async def _readable(self, name: str, index: int) -> tuple[Found | None, int]:
        wait = WAIT_SECONDS if len(self._names) <= MOST_WAITING else TURN_SECONDS
        try:
            async with self._room:
                return await self._service(name, index, wait)
        except (Unreachable, RequestError) as error:
            self._reader.tell(f"the service {name}", error)
            return None, 0

    async def _service(self, name: str, index: int, wait_seconds: int) -> tuple[Found, int]:
        if name in (".", ".."):
            raise RequestError(f"a service that is called {name!r} has no path")
        path = f"v1/health/service/{quote(name, safe='')}"
        answer, next_index = await self._blocking(path, index, wait_seconds)
        found: Found = {}
        where = f"{self._pages.url}/{path}"
        entries = [expected(where, entry, dict) for entry in expected(where, answer, list)]
        services = [dict(expected(where, entry.get("Service"), dict)) for entry in entries]
        alike = Counter(str(service.get("ID")) for service in services)
        for entry, service in zip(entries, services, strict=True):
            if alike[str(service.get("ID"))] > 1:  # there an id is unique on its machine only
                service["ID"] = f"{service.get('ID')}@{_node(entry).get('Node')}"
            self._reader.add(found, f"{name} {service.get('ID')}", lambda e=entry, s=service: self._made(e, s))  # type: ignore[misc]
        return found, next_index

    async def _blocking(self, path: str, index: int, wait_seconds: int) -> tuple[Any, int]:
        parameters: dict[str, str | int] = {"index": index, "wait": f"{wait_seconds}s"} if index else {}
        began = self._clock.now()
        answer, headers = await self._pages.read(path, parameters, wait_seconds)
        said = headers.get("X-Consul-Index", "0")
        found = int(said) if said.isdigit() else 0
        has_waited = self._clock.now() - began >= PAUSE_SECONDS
        # Who gives no index, or the same one at once, does not wait for a change: so this waits. An index that went
        # back is that of another history: begin anew (Consul's documentation of blocking queries).
        if not has_waited and (not found or found <= index):
            await self._clock.sleep(PAUSE_SECONDS)
        return answer, found if found >= index else 0

    def _made(self, entry: Mapping[str, Any], service: Mapping[str, Any]) -> tuple[str, Instance]:
        given = {
            "Name": service.get("Service"),
            "ID": service.get("ID"),
            "Tags": service.get("Tags"),
            "Address": service.get("Address"),
            "Port": service.get("Port"),
            "Meta": service.get("Meta"),
            "Weights": service.get("Weights"),
            "Kind": service.get("Kind") or "",
        }
        weights = service.get("Weights")
        if isinstance(weights, dict) and weights.get("Passing") == 1:
            del given["Weights"]  # Consul says so of each that has named none, which is our default
        address = str(_node(entry).get("Address", ""))
        made = registration(msgspec.json.encode(given), address, "", self._options)
        return made.service, msgspec.structs.replace(made.instance, health=_worst(entry.get("Checks")))


def _node(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    node = entry.get("Node")
    return node if isinstance(node, dict) else {}


def _worst(checks: object) -> Health:
    """The health of an instance with these checks; one of the node counts for each of its instances."""
    said = [check.get("Status") for check in checks if isinstance(check, dict)] if isinstance(checks, list) else []
    known = [HEALTHS.get(str(each), Health.CRITICAL) for each in said]
    return max(known, key=lambda health: health.rank, default=Health.PASSING)
