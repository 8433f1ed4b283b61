"""Answers about one service, encoded once for all who ask."""

from __future__ import annotations

from collections.abc import Mapping

from slotreeve_gateway import Filter, Provider, ServiceView

from slotreeve_face_rest.documents import InstanceShown, OpaqueProvider, Service, encode, shown


def service_body(view: ServiceView, chosen: Filter | None) -> bytes:
    """The JSON of :class:`Service`, with the providers that a filter admits; None: with all of them. Only answers of
    which there are few are kept: a caller may think of any number of filters."""

    def make() -> bytes:
        return encode(_service(view, chosen))

    return view.once(("rest", chosen), make) if chosen is None or _is_usual(view, chosen) else make()


def _is_usual(view: ServiceView, chosen: Filter) -> bool:
    def words() -> frozenset[str | None]:
        return frozenset(word for one in view.instances for word in (*one.tags, one.zone))

    known = view.once("rest words", words)
    return chosen.enough is None and len(chosen.tags) <= 1 and known >= chosen.tags and chosen.zone in (None, *known)


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
