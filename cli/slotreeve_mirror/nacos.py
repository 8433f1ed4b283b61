"""Nacos as a source, by its open API: the list of services, and the instances of each, asked again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from slotreeve.clock import Clock
from slotreeve.errors import ModelError, RequestError, Unreachable
from slotreeve.model.data_info import DataInfo
from slotreeve_client import Health, Instance
from slotreeve_protocol.instance import DEFAULT_WEIGHT, MAX_WEIGHT

from slotreeve_mirror.mirror import LeasePlace, SourceState
from slotreeve_mirror.source import Reader, SourcePages, expected

PAGE = 500
MOST_READINGS = 3
"""The list of services is read so many times where it changes meanwhile."""
AT_ONCE = 16
"""How many services are asked for at a time."""


class NacosSource:
    """The services of one namespace and group of a Nacos server.

    ``fixed`` are parameters of every question: its token, ``namespaceId``, ``groupName``.
    """

    def __init__(
        self, pages: SourcePages, clock: Clock, group: str, every_seconds: float, fixed: Mapping[str, str]
    ) -> None:
        self._pages, self._clock, self._group, self._every = pages, clock, group, every_seconds
        self._fixed = fixed
        self._reader = Reader()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def states(self) -> AsyncGenerator[SourceState, None]:
        """See :class:`slotreeve_mirror.source.MirrorSource`."""
        shown: SourceState | None = None
        while True:
            state = await self._read_all()
            if state != shown:
                yield state
                shown = state
            await self._clock.sleep(self._every)

    async def _read_all(self) -> SourceState:
        seen: dict[LeasePlace, Instance] = {}
        unknown = set[str]()
        names = await self._names()
        for name, hosts in zip(names, await asyncio.gather(*map(self._hosts, names)), strict=True):
            if hosts is None:
                unknown.add(self._service(name))
            for host in hosts or ():
                what = f"{name} {host.get('ip')}:{host.get('port')}"
                self._reader.add(seen, what, lambda n=name, h=host: self._made(n, h))  # type: ignore[misc]
        return SourceState(seen, frozenset(unknown))

    async def _names(self) -> list[str]:
        """The names of all services. Their pages move where a service comes or goes meanwhile: then they are read
        again."""
        for _ in range(MOST_READINGS - 1):
            names, counts = await self._pages_of_names()
            if counts == {len(set(names))} or None in counts:
                return names
        return (await self._pages_of_names())[0]

    async def _pages_of_names(self) -> tuple[list[str], set[int | None]]:
        """The names, and how many there are by the answers; None: one does not say it."""
        names: list[str] = []
        counts = set[int | None]()
        where = f"{self._pages.url}/v1/ns/service/list"
        for number in range(1, 1_000_000):
            given: dict[str, str | int] = {"pageNo": number, "pageSize": PAGE, **self._fixed}
            answer, _ = await self._pages.read("v1/ns/service/list", given)
            said = expected(where, answer, dict)
            counts.add(said["count"] if isinstance(said.get("count"), int) else None)
            page = expected(where, said.get("doms"), list)
            names += [str(name) for name in page]
            if len(page) < PAGE:
                break
        return names, counts

    async def _hosts(self, name: str) -> list[Mapping[str, Any]] | None:
        """The instances of a service; None: it cannot be read now."""
        where = f"{self._pages.url}/v1/ns/instance/list?serviceName={name}"
        given: dict[str, str | int] = {"serviceName": name, "healthyOnly": "false", **self._fixed}
        try:
            async with self._room:
                answer, _ = await self._pages.read("v1/ns/instance/list", given)
            hosts = expected(where, expected(where, answer, dict).get("hosts"), list)
            return [expected(where, host, dict) for host in hosts]
        except (Unreachable, RequestError) as error:
            self._reader.tell(f"the service {name}", error)
            return None

    def _service(self, name: str) -> str:
        return DataInfo(name.rpartition("@@")[2], group=self._group).id

    def _made(self, name: str, host: Mapping[str, Any]) -> tuple[str, Instance]:
        metadata = host.get("metadata") or {}
        port, weight = host.get("port"), host.get("weight", 1.0)
        if not isinstance(metadata, dict) or type(port) is not int or not isinstance(weight, int | float):
            raise ModelError(f"metadata, port or weight is none: {str(host)[:200]}")
        weight = min(max(weight, 0.0), MAX_WEIGHT)  # JSON may hold more than what can be rounded
        instance = Instance(
            str(host.get("ip")),
            port,
            weight=min(round(weight * DEFAULT_WEIGHT), MAX_WEIGHT),
            metadata={str(key): str(value) for key, value in metadata.items()},
            health=Health.PASSING if host.get("healthy", True) else Health.CRITICAL,
            enabled=bool(host.get("enabled", True)),
        )
        return self._service(name), instance
