"""Stand-ins: what shows an instance after its TTL check has not been passed in time. Pure.

The lease of an instance ends with its TTL, so that nobody is sent to it, whoever asks in whatever language. Clients of
Consul expect to see it go on as critical until ``DeregisterCriticalServiceAfter`` has passed. So each instance with a
TTL check has a second lease of a longer life, its stand-in, in a service that gateways keep for themselves. A stand-in
is seen only while the instance itself is not there. See docs/decisions/0042-stand-ins-of-instances-that-are-late.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotreeve.model.data_info import DELIMITER, DataInfo
from slotreeve_gateway import OWN_INSTANCE, ServiceView
from slotreeve_protocol.instance import Health, Instance

from slotreeve_face_consul.registrations import MAINTENANCE_KEY, ttl_seconds_of

STAND_INS = f"{OWN_INSTANCE}consul"
"""Instance id of the services that hold stand-ins."""
EXPIRED = "TTL expired"


def stand_ins_of(service: str) -> str:
    """The service that holds the stand-ins of a service; both are data info ids."""
    info = DataInfo.parse(service)
    return DataInfo(info.data_id, STAND_INS, info.group).id


def services_with_stand_ins(own: Iterable[str], group: str) -> list[str]:
    """The services of a group that have stand-ins, from the services that gateways keep for themselves."""
    suffix = f"{DELIMITER}{STAND_INS}{DELIMITER}{group}"
    return [DataInfo(name.removesuffix(suffix), group=group).id for name in own if name.endswith(suffix)]


def stand_in(instance: Instance) -> Instance:
    """The stand-in of an instance."""
    return instance.changed(health=Health.CRITICAL, health_note=EXPIRED)


def said(view: ServiceView) -> Mapping[str, Instance]:
    """What was registered in a service, by id; of an instance that is late its stand-in."""

    def make() -> dict[str, Instance]:
        return {one.id: one for p in (*view.late, *view.providers) if (one := p.said) is not None}

    return view.once("consul said", make)


def shown(view: ServiceView) -> tuple[Instance, ...]:
    """The instances of a service with the operator's overrides, and the stand-ins of those that are late."""

    def make() -> tuple[Instance, ...]:
        return tuple(one for p in (*view.providers, *view.late) if (one := p.instance) is not None)

    return view.once("consul shown", make)


def has_stand_in(view: ServiceView, instance: Instance) -> bool:
    """Whether the stand-in of an instance is there as it should be."""
    kept = view.once("consul beside", lambda: {one.id: one for p in view.beside if (one := p.said) is not None})
    return kept.get(instance.id) == stand_in(instance)


def registered_again(asked: Instance, before: Instance | None) -> Instance:
    """What a registration makes of an instance that is there already: its check goes on as it was, with its output, and
    a maintenance goes on until somebody ends it."""
    if before is None:
        return asked
    if ttl_seconds_of(asked) is not None and ttl_seconds_of(before) is not None:
        asked = asked.changed(health=before.health, health_note=before.health_note)
    if MAINTENANCE_KEY in before.metadata:
        asked = maintained(asked, True, before.metadata[MAINTENANCE_KEY])
    return asked


def maintained(instance: Instance, enable: bool, reason: str) -> Instance:
    """The instance in maintenance for this reason, or out of it."""
    metadata = {key: value for key, value in instance.metadata.items() if key != MAINTENANCE_KEY}
    if enable:
        metadata[MAINTENANCE_KEY] = reason
    return instance.changed(enabled=not enable, metadata=metadata)
