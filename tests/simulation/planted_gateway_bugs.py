"""Bugs of gateways and their faces to plant in the product; see ``planted_bugs``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any

from slotreeve_client import LeaseAnswers
from slotreeve_face_consul.places import FoundLease, InstancePlaces
from slotreeve_gateway import lease_writes
from slotreeve_gateway.registry import Registry
from slotreeve_gateway.views import ServiceView, Views
from slotreeve_protocol.instance import Instance

from tests.simulation.planting import Patch, bug, replaced


@bug("a gateway says that a lease was registered before the registry has it", "gateways")
def _registered_at_once() -> Patch:
    register = Registry.register
    kept: set[asyncio.Task[None]] = set()

    async def later(self: Registry, service: str, instance: Instance, ttl_seconds: float = 30.0) -> None:
        kept.add(asyncio.create_task(register(self, service, instance, ttl_seconds)))

    return replaced(Registry, "register", later)


@bug("a gateway tells all callers whose renewals went in one message that their leases are known", "gateways")
def _renewals_of_others_are_known() -> Patch:
    send = lease_writes._Gatherer._send_part

    async def told(self: Any, part: list[Any]) -> None:
        ask = self._send

        async def known(items: list[Any]) -> LeaseAnswers:
            answers: LeaseAnswers = await ask(items)
            answers.unknown.clear()
            return answers

        self._send = known
        try:
            await send(self, part)
        finally:
            self._send = ask

    return replaced(lease_writes._Gatherer, "_send_part", told)


@bug("each gateway counts the changes of a service itself", "gateways")
def _own_index() -> Patch:
    def changed(self: ServiceView) -> None:
        self.index += 1
        self._made.clear()
        self._waiters.wake()

    return replaced(ServiceView, "_changed", changed)


@bug("those who wait for a service are not woken", "gateways")
def _nobody_is_woken() -> Patch:
    changed = ServiceView._changed

    def silent(self: ServiceView) -> None:
        with replaced(self._waiters, "_waiting", set()):
            changed(self)

    return replaced(ServiceView, "_changed", silent)


@bug("an answer that was made once is given for ever", "gateways")
def _made_for_ever() -> Patch:
    kept: dict[tuple[int, Hashable], tuple[ServiceView, object]] = {}

    def once(self: ServiceView, key: Hashable, make: Callable[[], object]) -> object:
        if (id(self), key) not in kept:
            kept[id(self), key] = (self, make())
        return kept[id(self), key][1]

    return replaced(ServiceView, "once", once)


@bug("a service that nobody has asked for lately is closed although callers wait for it", "gateways")
def _closed_under_those_who_wait() -> Patch:
    return replaced(ServiceView, "is_waited_for", property(lambda _self: False))


@bug("a view is used again after it was closed", "gateways")
def _closed_views_are_kept() -> Patch:
    def sweep(self: Views) -> None:
        for name, asked in self._asked.items():
            if asked < self._clock.now() - self.idle_seconds and name in self._views:
                self._views[name].close()

    return replaced(Views, "sweep", sweep)


@bug("a gateway calls a check of Consul unknown where another gateway registered it", "gateways")
def _places_of_others_are_unknown() -> Patch:
    renewed = InstancePlaces.renewed

    async def known(self: InstancePlaces, service_id: str, caller: Any) -> FoundLease | None:
        return await renewed(self, service_id, caller) if self.known(caller, service_id) is not None else None

    return replaced(InstancePlaces, "renewed", known)
