"""Consul as a source: one blocking query for the list of services, and one for each service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from slotreeve.clock import Clock
from slotreeve_client import Health, Instance
from slotreeve_face_consul.options import ConsulOptions
from slotreeve_face_consul.registrations import registration

from slotreeve_mirror.mirror import LeasePlace, Seen
from slotreeve_mirror.source import Reader, SourcePages, expected

WAIT_SECONDS = 60.0
"""How long Consul may wait for a change before it answers the same again."""
PAUSE_SECONDS = 1.0
"""Between questions that do not wait for a change."""
HEALTHS = {health.value: health for health in Health}
OWN_SERVICE = "consul"
"""The service that the servers of Consul register for themselves."""


class ConsulSource:
    """The services in the catalog of a Consul agent, with the worst of their checks as health."""

    def __init__(self, pages: SourcePages, clock: Clock, group: str) -> None:
        self._pages, self._clock, self._options = pages, clock, ConsulOptions(group=group)
        self._reader = Reader()
        self._known: dict[str, dict[LeasePlace, Instance]] = {}
        self._changed = asyncio.Event()

    async def states(self) -> AsyncGenerator[Seen, None]:
        """See :class:`slotreeve_mirror.source.MirrorSource`."""
        names, index = await self._services(0)
        ordered = sorted(names)
        found = await asyncio.gather(*(self._service(name, 0) for name in ordered))
        self._known = {name: instances for name, (instances, _) in zip(ordered, found, strict=True)}
        watches: dict[str, asyncio.Task[None]] = {}
        listing = asyncio.create_task(self._services(index))
        try:
            while True:
                yield {place: instance for of in self._known.values() for place, instance in of.items()}
                for name in names - watches.keys():
                    watches[name] = asyncio.create_task(self._watch(name))
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait({listing, changed, *watches.values()}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                self._changed.clear()
                if listing.done():
                    names, index = listing.result()
                    listing = asyncio.create_task(self._services(index))
                    for name in watches.keys() - names:
                        watches.pop(name).cancel()
                        self._known.pop(name, None)
                for watch in watches.values():
                    if watch.done():
                        watch.result()  # raises what has ended it
        finally:
            tasks = [listing, *watches.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, name: str) -> None:
        index = 0
        while True:
            found, index = await self._service(name, index)
            if found != self._known.get(name):
                self._known[name] = found
                self._changed.set()

    async def _services(self, index: int) -> tuple[set[str], int]:
        answer, next_index = await self._blocking("v1/catalog/services", index)
        return {*expected(f"{self._pages.url}/v1/catalog/services", answer, dict)} - {OWN_SERVICE}, next_index

    async def _service(self, name: str, index: int) -> tuple[dict[LeasePlace, Instance], int]:
        path = f"v1/health/service/{quote(name, safe='')}"
        answer, next_index = await self._blocking(path, index)
        seen: dict[LeasePlace, Instance] = {}
        where = f"{self._pages.url}/{path}"
        for entry in expected(where, answer, list):
            service = expected(where, expected(where, entry, dict).get("Service"), dict)
            self._reader.add(seen, f"{name} {service.get('ID')}", lambda e=entry, s=service: self._made(e, s))  # type: ignore[misc]
        return seen, next_index

    async def _blocking(self, path: str, index: int) -> tuple[Any, int]:
        parameters: dict[str, str | int] = {"index": index, "wait": f"{WAIT_SECONDS:.0f}s"} if index else {}
        answer, headers = await self._pages.read(path, parameters, WAIT_SECONDS)
        said = headers.get("X-Consul-Index", "0")
        found = int(said) if said.isdigit() else 0
        if 0 < index <= found:
            return answer, found
        # The first answer, or an index that went back, which is that of another history: begin anew (Consul's
        # documentation of blocking queries). Who gives no index at all does not wait, so this waits.
        if not found or index:
            await self._clock.sleep(PAUSE_SECONDS)
        return answer, 0 if index else found

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
        node = entry.get("Node")
        address = str(node.get("Address", "")) if isinstance(node, dict) else ""
        made = registration(msgspec.json.encode(given), address, "", self._options)
        return made.service, msgspec.structs.replace(made.instance, health=_worst(entry.get("Checks")))


def _worst(checks: object) -> Health:
    """The health of an instance with these checks; one of the node counts for each of its instances."""
    said = [check.get("Status") for check in checks if isinstance(check, dict)] if isinstance(checks, list) else []
    known = [HEALTHS.get(str(each), Health.CRITICAL) for each in said]
    return max(known, key=lambda health: health.rank, default=Health.PASSING)
