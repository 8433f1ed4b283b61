"""What a client does with its agent: register, renew by its check, deregister, maintenance."""

from __future__ import annotations

from slotreeve.clock import Clock
from slotreeve.errors import ModelError, RequestTimeout
from slotreeve_gateway import Caller, Registry, Right, ServiceView, Turns
from slotreeve_protocol.instance import Health, Instance
from slotreeve_protocol.leases import LONGEST_TTL_SECONDS

from slotreeve_face_consul.former_names import FormerNames
from slotreeve_face_consul.options import ConsulOptions
from slotreeve_face_consul.places import InstancePlaces
from slotreeve_face_consul.registrations import (
    CHECK_PREFIX,
    TTL_KEY,
    ConsulRegistration,
    critical_seconds_of,
    note,
    ttl_seconds_of,
)
from slotreeve_face_consul.stand_ins import (
    has_stand_in,
    maintained,
    registered_again,
    said,
    stand_in,
    stand_ins_of,
)

SEEN_SECONDS = 1.0
"""How long a write waits until this gateway itself sees it. Usually that takes a millisecond."""


class UnknownId(ModelError):
    """There is no such service or check. Clients register again on it."""


class LeaseAgent:
    """Stands for the agent that a client of Consul speaks with. It keeps nothing that another gateway needs.

    A write returns once this gateway sees it, so that a client which registers and then passes its check finds what it
    has registered. What is written depends on what is there, so one write at a time has its turn for each id.
    """

    def __init__(self, registry: Registry, clock: Clock, options: ConsulOptions) -> None:
        self._registry, self._options = registry, options
        self._places = InstancePlaces(registry, options.group)
        self._turns = Turns()
        self._former_names = FormerNames(registry, self._places, clock, self._end)

    def services(self) -> set[str]:
        """Services that this gateway has registered something in lately; the list of all services may be older."""
        return self._places.services()

    async def stop(self) -> None:
        """End the work that goes on after an answer."""
        await self._former_names.stop()

    async def register(self, caller: Caller, asked: ConsulRegistration) -> None:
        """Register an instance, or replace it. Its check, its output and its maintenance go on. An instance of the same
        id and address in another service, which is this one under its former name, ends.

        Raises:
            Forbidden: the caller must not.
            RequestTimeout, Backpressure, ClientError: the registry does not do it.
        """
        caller.require(Right.REGISTER, asked.service)
        instance_id = asked.instance.id
        async with self._turns.of((caller.author, instance_id)):
            self._former_names.forget(caller, instance_id)
            view = await self._view(asked.service)
            instance = registered_again(asked.instance, said(view).get(instance_id))
            await self._store(asked.service, instance, asked.ttl_seconds)
            former = self._places.known(caller, instance_id)
            self._places.remember(caller, instance_id, asked.service)
            if former is None:
                self._former_names.look_for(asked.service, instance, caller)
            elif former != asked.service:
                await self._former_names.end(former, instance, caller)

    async def deregister(self, caller: Caller, service_id: str) -> None:
        """End an instance now. Raises UnknownId, and as :meth:`register`."""
        async with self._turns.of((caller.author, service_id)):
            self._former_names.forget(caller, service_id)
            found = await self._places.renewed(service_id, caller)
            if found is None:
                raise unknown_service(service_id)
            await self._end(found.service, service_id)
            self._places.forget(caller, service_id)

    async def report(self, caller: Caller, check_id: str, health: Health, output: str) -> None:
        """The client says how its service is. To say again what is known already only renews the lease; the note of a
        check that passes is kept only if it was not passing before.

        Raises:
            UnknownId: there is no such lease.
            ModelError: the service was registered without a TTL check.
            Forbidden, RequestTimeout, Backpressure, ClientError: as :meth:`register`.
        """
        service_id = check_id.removeprefix(CHECK_PREFIX)
        async with self._turns.of((caller.author, service_id)):
            found = await self._places.renewed(service_id, caller) if service_id != check_id else None
            if found is None:
                raise UnknownId(
                    f'Unknown check ID "{check_id[:300]}". Ensure that the check ID is passed, not the check name.'
                )
            instance = await self._said(found.service, service_id)
            ttl_seconds = ttl_seconds_of(instance)
            if ttl_seconds is None:
                raise ModelError(f'CheckID "{check_id}" does not have associated TTL')
            changed = instance.changed(health=health, health_note=note(output))
            says_more = instance.health is not health or (health is not Health.PASSING and changed != instance)
            if found.is_late or says_more:
                await self._store(found.service, changed, ttl_seconds)

    async def maintain(self, caller: Caller, service_id: str, enable: bool, reason: str) -> None:
        """Say whether an instance is in maintenance, and must not be called. Raises as :meth:`report`; ModelError where
        it was not registered by a client of Consul, so that nobody here knows how long its lease is to live."""
        async with self._turns.of((caller.author, service_id)):
            found = await self._places.renewed(service_id, caller)
            if found is None:
                raise unknown_service(service_id)
            instance = await self._said(found.service, service_id)
            if TTL_KEY not in instance.metadata:
                raise ModelError(
                    f"{service_id} was not registered by this face; disable it where it was, or override it"
                )
            changed = maintained(instance, enable, note(reason))
            if changed != instance:
                ttl_seconds = ttl_seconds_of(instance) or self._options.unchecked_seconds
                await self._store(found.service, changed, ttl_seconds)

    async def _view(self, service: str) -> ServiceView:
        return await self._registry.view(service, stand_ins_of(service))

    async def _store(self, service: str, instance: Instance, ttl_seconds: float) -> None:
        """Register the instance and, if it has a TTL check, its stand-in; wait until this gateway sees it."""
        await self._registry.register(service, instance, ttl_seconds)
        view = await self._view(service)
        if ttl_seconds_of(instance) is not None:
            place = stand_ins_of(service)
            # To renew it wakes nobody.
            if not (has_stand_in(view, instance) and await self._registry.renew(place, instance.id)):
                life = ttl_seconds + critical_seconds_of(instance, self._options.unchecked_seconds)
                await self._registry.register(place, stand_in(instance), min(life, LONGEST_TTL_SECONDS))
        await view.until(lambda: said(view).get(instance.id) == instance, SEEN_SECONDS)

    async def _end(self, service: str, service_id: str) -> None:
        """End an instance. Its stand-in goes first, so that nobody sees it in its place."""
        await self._registry.deregister(stand_ins_of(service), service_id)
        await self._registry.deregister(service, service_id)
        view = await self._view(service)
        await view.until(lambda: service_id not in said(view), SEEN_SECONDS)

    async def _said(self, service: str, service_id: str) -> Instance:
        """What was registered, without what an operator overrides. The lease is there; this gateway may not see it
        yet."""
        view = await self._view(service)
        await view.until(lambda: service_id in said(view), SEEN_SECONDS)
        found = said(view).get(service_id)
        if found is None:
            raise RequestTimeout(f"this gateway does not see {service_id} yet; try again")
        return found


def unknown_service(service_id: str) -> UnknownId:
    """The error that there is no such service."""
    return UnknownId(
        f'Unknown service ID "{service_id[:300]}". Ensure that the service ID is passed, not the service name.'
    )
