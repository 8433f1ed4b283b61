"""Answers about one service, encoded once for all who ask, and the wait for a change of it."""

from __future__ import annotations

from collections.abc import Mapping

from slotreeve.clock import Clock
from slotreeve_gateway import Filter, Provider, ServiceView

from slotreeve_face_rest.documents import InstanceShown, OpaqueProvider, Service, encode, shown


def service_body(view: ServiceView, chosen: Filter | None) -> bytes:
    """The JSON of :class:`Service`, with the providers that a filter admits; None: with all of them."""
    return view.once(("rest", chosen), lambda: encode(_service(view, chosen)))


def _service(view: ServiceView, chosen: Filter | None) -> Service:
    found = [shown(provider) for provider in (view.providers if chosen is None else chosen.of(view.providers))]
    return Service(
        view.data_info_id,
        view.index,
        [one for one in found if isinstance(one, InstanceShown)],
        [one for one in found if isinstance(one, OpaqueProvider)],
    )


def instance_body(view: ServiceView, instance_id: str) -> bytes | None:
    """The JSON of one instance; None: there is none. Where several have this id, it is that of the first one."""
    provider = view.once("rest by id", lambda: _by_id(view)).get(instance_id)
    return encode(shown(provider)) if provider is not None else None


def _by_id(view: ServiceView) -> Mapping[str, Provider]:
    return {p.instance.id: p for p in reversed(view.providers) if p.instance is not None}


async def newer(view: ServiceView, index: int, seconds: float, clock: Clock) -> bool:
    """Wait until the index of the view is greater than ``index``, at most so many seconds. Whether it is.

    A caller may come from another gateway, which was ahead of this one. What this one catches up with is no news.
    """
    deadline = clock.now() + seconds
    while view.index <= index:
        left = deadline - clock.now()
        if left <= 0:
            return False
        await view.changed(index, left)
    return True
