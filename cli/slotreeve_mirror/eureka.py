"""Eureka as a source: all applications, then what changed lately (``/apps`` and ``/apps/delta``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from slotreeve.clock import Clock
from slotreeve_client import Instance
from slotreeve_face_eureka.applications import hashcode, registration

from slotreeve_mirror.mirror import LeasePlace, SourceState
from slotreeve_mirror.source import Reader, SourcePages, expected

Tree = dict[str, Any]


class EurekaSource:
    """The applications of a Eureka server. It is asked once in ``every_seconds`` for what changed."""

    def __init__(self, pages: SourcePages, clock: Clock, group: str, every_seconds: float) -> None:
        self._pages, self._clock, self._group, self._every = pages, clock, group, every_seconds
        self._reader = Reader()
        self._known: dict[tuple[str, str], Tree] = {}

    async def states(self) -> AsyncGenerator[SourceState, None]:
        """See :class:`slotreeve_mirror.source.MirrorSource`."""
        await self._read_all()
        while True:
            yield SourceState(self._seen())
            before = self._known.copy()
            while self._known == before:
                await self._clock.sleep(self._every)
                await self._read_changes()

    async def _read_all(self) -> None:
        answer, _ = await self._pages.read("apps", {})
        self._known = dict(self._each(answer))

    async def _read_changes(self) -> None:
        answer, _ = await self._pages.read("apps/delta", {})
        for key, given in self._each(answer):
            if given.get("actionType") == "DELETED":
                self._known.pop(key, None)
            else:
                self._known[key] = given
        if hashcode(Counter(str(given.get("status")) for given in self._known.values())) != _hash_of(answer):
            await self._read_all()

    def _each(self, answer: object) -> Iterator[tuple[tuple[str, str], Tree]]:
        """Application and id of each instance, and what is said of it. One element may stand without its list."""
        where = f"{self._pages.url}/apps"
        whole = expected(where, answer, dict)
        for application in _list(expected(where, whole.get("applications"), dict).get("application")):
            name = str(expected(where, application, dict).get("name"))
            for given in _list(application.get("instance")):
                instance = expected(where, given, dict)
                yield (name, str(instance.get("instanceId") or instance.get("hostName"))), instance

    def _seen(self) -> dict[LeasePlace, Instance]:
        seen: dict[LeasePlace, Instance] = {}
        for (application, name), given in self._known.items():
            self._reader.add(seen, f"{application} {name}", lambda a=application, g=given: self._made(a, g))  # type: ignore[misc]
        return seen

    def _made(self, application: str, given: Tree) -> tuple[str, Instance]:
        made = registration(application, given, "", self._group)
        return made.service, made.instance


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _hash_of(answer: Tree) -> str:
    found = answer["applications"].get("apps__hashcode")
    return found if isinstance(found, str) else ""
