"""What a client does with its agent: register, renew by its check, deregister, maintenance."""

from __future__ import annotations

from collections.abc import Mapping

from slotreeve.clock import Clock
from slotreeve.errors import ModelError, RequestTimeout
from slotreeve_gateway import Caller, Registry, Right, ServiceView
from slotreeve_protocol.instance import Health, Instance

from slotreeve_face_consul.options import ConsulOptions
from slotreeve_face_consul.places import InstancePlaces
from slotreeve_face_consul.registrations import (
    CHECK_PREFIX,
    TTL_KEY,
    ConsulRegistration,
    note,
    ttl_seconds_of,
)

SEEN_SECONDS = 1.0
"""How long a write waits until this gateway itself sees it. Usually that takes a millisecond."""


class UnknownId(ModelError):
    """There is no such service or check. Clients register again on it."""


class LeaseAgent:
    """Stands for the agent that a client of Consul speaks with. It keeps nothing that another gateway needs.

    A write returns once this gateway sees it, so that a client which registers and then passes its check finds what it
    has registered.
    """

    def __init__(self, registry: Registry, clock: Clock, options: ConsulOptions) -> None:
        self._registry, self._clock, self._options = registry, clock, options
        self._places = InstancePlaces(registry, options.group)

    def services(self) -> set[str]:
        """Services that this gateway has registered something in lately; the list of all services may be older."""
        return self._places.services()

    async def register(self, caller: Caller, asked: ConsulRegistration) -> None:
        """Register an instance, or replace it.

        Raises:
            Forbidden: the caller must not.
            RequestTimeout, Backpressure, ClientError: the registry does not do it.
        """
        caller.require(Right.REGISTER, asked.service)
        await self._store(asked.service, asked.instance, asked.ttl_seconds)
        self._places.remember(asked.instance.id, asked.service)

    async def deregister(self, caller: Caller, service_id: str) -> None:
        """End an instance now. Raises UnknownId, and as :meth:`register`."""
        service = await self._places.renewed(service_id, caller)
        if service is None:
            raise unknown_service(service_id)
        view = await self._registry.view(service)
        before = said(view).get(service_id)
        await self._registry.deregister(service, service_id)
        self._places.forget(service_id)
        await self._seen(view, service_id, before)

    async def report(self, caller: Caller, check_id: str, health: Health, output: str) -> None:
        """The client says how its service is. To say again what is known already only renews the lease; the note of a
        check that passes is kept only if it was not passing before.

        Raises:
            UnknownId: there is no such lease.
            ModelError: the service was registered without a TTL check.
            Forbidden, RequestTimeout, Backpressure, ClientError: as :meth:`register`.
        """
        service_id = check_id.removeprefix(CHECK_PREFIX)
        service = await self._places.renewed(service_id, caller) if service_id != check_id else None
        if service is None:
            raise UnknownId(
                f'Unknown check ID "{check_id[:300]}". Ensure that the check ID is passed, not the check name.'
            )
        instance = await self._said(service, service_id)
        ttl_seconds = ttl_seconds_of(instance)
        if ttl_seconds is None:
            raise ModelError(f'CheckID "{check_id}" does not have associated TTL')
        changed = instance.changed(health=health, health_note=note(output))
        if instance.health is not health or (health is not Health.PASSING and changed != instance):
            await self._store(service, changed, ttl_seconds)

    async def maintain(self, caller: Caller, service_id: str, enable: bool, reason: str) -> None:
        """Say whether an instance is in maintenance, and must not be called. Raises as :meth:`report`; ModelError where
        it was not registered by a client of Consul, so that nobody here knows how long its lease is to live."""
        service = await self._places.renewed(service_id, caller)
        if service is None:
            raise unknown_service(service_id)
        instance = await self._said(service, service_id)
        if TTL_KEY not in instance.metadata:
            raise ModelError(f"{service_id} was not registered by this face; disable it where it was, or override it")
        changed = instance.changed(enabled=not enable, health_note=note(reason) or instance.health_note)
        if changed != instance:
            await self._store(service, changed, ttl_seconds_of(instance) or self._options.unchecked_seconds)

    async def _store(self, service: str, instance: Instance, ttl_seconds: float) -> None:
        view = await self._registry.view(service)
        before = said(view).get(instance.id)
        await self._registry.register(service, instance, ttl_seconds)
        if before != instance:
            await self._seen(view, instance.id, before)

    async def _seen(self, view: ServiceView, service_id: str, before: Instance | None) -> None:
        """Wait until this gateway sees another instance than ``before``, or for some time at most."""
        end = self._clock.now() + SEEN_SECONDS
        while said(view).get(service_id) == before:
            if not await view.changed(view.index, end - self._clock.now()):
                return

    async def _said(self, service: str, service_id: str) -> Instance:
        """What was registered, without what an operator overrides. The lease is there; this gateway may not see it
        yet."""
        view = await self._registry.view(service)
        await self._seen(view, service_id, None)
        found = said(view).get(service_id)
        if found is None:
            raise RequestTimeout(f"this gateway does not see {service_id} yet; try again")
        return found


def said(view: ServiceView) -> Mapping[str, Instance]:
    """What was registered in a service, by id."""
    return view.once("consul said", lambda: {one.id: one for p in view.providers if (one := p.said) is not None})


def unknown_service(service_id: str) -> UnknownId:
    """The error that there is no such service."""
    return UnknownId(
        f'Unknown service ID "{service_id[:300]}". Ensure that the service ID is passed, not the service name.'
    )
