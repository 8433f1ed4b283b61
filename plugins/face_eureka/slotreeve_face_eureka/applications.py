"""Instances as Eureka has them, and back. Pure.

An application of Eureka is a service whose data id is the application's name in small letters; it is shown in capitals.
What an instance has no field for stands in its metadata under keys that begin with ``eureka-``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from slotreeve.errors import ModelError
from slotreeve.model.data_info import DataInfo
from slotreeve_protocol.addresses import AddressKind
from slotreeve_protocol.instance import Health, Instance
from slotreeve_protocol.leases import LONGEST_TTL_SECONDS, SHORTEST_TTL_SECONDS

from slotreeve_face_eureka.bodies import Tree

OWN = "eureka-"
DEFAULT_DURATION_SECONDS = 90
MOST_DIGITS = 18
STARTING = "STARTING"
STATUSES = ("UP", "DOWN", STARTING, "OUT_OF_SERVICE", "UNKNOWN")
_KEPT = {
    "homePageUrl": "home",
    "statusPageUrl": "status-page",
    "healthCheckUrl": "health-check",
    "secureVipAddress": "secure-vip",
}
"""Fields that are kept as they are, with their keys."""


@dataclass(frozen=True, slots=True)
class EurekaRegistration:
    """What is to be registered: data info id, instance, and time to live of its lease."""

    service: str
    instance: Instance
    ttl_seconds: float


def data_info_id(application: str, group: str) -> str:
    """The service of an application. Raises ModelError."""
    return DataInfo(application.lower(), group=group).id


def registration(application: str, given: Tree, zone: str, group: str) -> EurekaRegistration:
    """The instance in a body.

    Args:
        zone: the zone of an instance that names none.

    Raises:
        ModelError: it is not good; the message says what is wrong.
    """
    port, secure = _port(given, "port"), _port(given, "securePort")
    address, host = _text(given, "ipAddr"), _text(given, "hostName")
    metadata = _metadata(given)
    lease = given.get("leaseInfo") or {}
    if not isinstance(lease, Mapping):
        raise ModelError("leaseInfo is not an object")
    duration = _number(lease.get("durationInSecs", DEFAULT_DURATION_SECONDS), "leaseInfo.durationInSecs")
    duration = min(max(duration, round(SHORTEST_TTL_SECONDS)), round(LONGEST_TTL_SECONDS))
    own = {"host": host if host != address else "", "duration": str(duration)}
    own |= {key: _text(given, name) for name, key in _KEPT.items()}
    vip = _text(given, "vipAddress")
    own["vip"] = vip if vip != application.lower() else ""
    dirty = dirty_of(given.get("lastDirtyTimestamp"))
    own["dirty"] = str(dirty) if dirty else ""
    own["secure-port"] = str(secure[0]) if secure[1] and port[1] else ""
    only_secure = secure[1] and not port[1]
    status = _text(given, "status") or "UP"
    health, note, enabled = _condition(status)
    center = given.get("dataCenterInfo")
    amazon = center.get("metadata") if isinstance(center, Mapping) else None
    amazon_zone = amazon.get("availability-zone") if isinstance(amazon, Mapping) else None
    instance = Instance(
        address or host,
        secure[0] if only_secure else port[0],
        "https" if only_secure else "",
        zone=metadata.get("zone") or (amazon_zone if isinstance(amazon_zone, str) else "") or zone,
        metadata=metadata | {OWN + key: value for key, value in own.items() if value},
        health=health,
        health_note=note,
        enabled=enabled,
        id=_text(given, "instanceId") or host or address,
    )
    return EurekaRegistration(data_info_id(application, group), instance, float(duration))


def dirty_of(value: object) -> int:
    """A ``lastDirtyTimestamp``: when the client has changed what it says of itself; 0: it does not say."""
    try:
        return _number(value, "lastDirtyTimestamp") if value not in (None, "") else 0
    except ModelError:
        return 0


def last_dirty(instance: Instance) -> int:
    """The ``lastDirtyTimestamp`` with which an instance was registered; 0: without."""
    return dirty_of(instance.metadata.get(OWN + "dirty"))


def duration_of(instance: Instance) -> float | None:
    """The time to live of an instance that was registered by this face; None: it was not."""
    seconds = dirty_of(instance.metadata.get(OWN + "duration"))
    return float(seconds) if SHORTEST_TTL_SECONDS <= seconds <= LONGEST_TTL_SECONDS else None


def with_metadata(instance: Instance, changes: Mapping[str, str]) -> Instance:
    """The instance with other values of its metadata. Raises ModelError."""
    return instance.changed(metadata=instance.metadata | _without_own(changes))


def has_vip(shown_instance: Mapping[str, object], field: str, vip: str) -> bool:
    """Whether an instance has a virtual address; it may have several, with commas between them."""
    listed = str(shown_instance[field]).split(",")
    return vip.strip().lower() in (one.strip().lower() for one in listed)


def status_of(instance: Instance) -> str:
    """The status of an instance."""
    if not instance.enabled:
        return "OUT_OF_SERVICE"
    if instance.health is not Health.CRITICAL:
        return "UP"
    return instance.health_note if instance.health_note in (STARTING, "UNKNOWN") else "DOWN"


def shown(application: str, instance: Instance, said: Instance, renewal_seconds: int = 30) -> dict[str, object]:
    """An instance as Eureka shows it. ``said``: what was registered, without what an operator overrides."""
    own = {key.removeprefix(OWN): value for key, value in instance.metadata.items() if key.startswith(OWN)}
    metadata = {key: value for key, value in instance.metadata.items() if not key.startswith(OWN)}
    if instance.zone:
        metadata.setdefault("zone", instance.zone)
    only_secure = instance.scheme == "https"
    secure_port = instance.port if only_secure else _kept_number(own, "secure-port", 443)
    is_ip = instance.address_kind is not AddressKind.NAME
    overridden = status_of(instance) if instance.enabled != said.enabled else "UNKNOWN"
    return {
        "instanceId": instance.id,
        "hostName": own.get("host") or instance.address,
        "app": application.upper(),
        "ipAddr": instance.address if is_ip or "host" in own else "",
        "status": status_of(instance),
        "overriddenstatus": overridden,
        "port": {"$": instance.port, "@enabled": "false" if only_secure else "true"},
        "securePort": {"$": secure_port, "@enabled": str(only_secure or "secure-port" in own).lower()},
        "countryId": 1,
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        "leaseInfo": {
            "renewalIntervalInSecs": renewal_seconds,
            "durationInSecs": _kept_number(own, "duration", DEFAULT_DURATION_SECONDS),
            "registrationTimestamp": 0,
            "lastRenewalTimestamp": 0,
            "evictionTimestamp": 0,
            "serviceUpTimestamp": 0,
        },
        "metadata": metadata,
        **{name: own.get(key, "") for name, key in _KEPT.items()},
        "vipAddress": own.get("vip") or application.lower(),
        "isCoordinatingDiscoveryServer": "false",
        "lastUpdatedTimestamp": own.get("dirty", "0"),
        "lastDirtyTimestamp": own.get("dirty", "0"),
        "actionType": "ADDED",
    }


def hashcode(statuses: Mapping[str, int]) -> str:
    """``apps__hashcode``: how many instances have which status. Clients compare it with that of their own copy."""
    return "".join(f"{status}_{count}_" for status, count in sorted(statuses.items()))


def _kept_number(own: Mapping[str, str], key: str, default: int) -> int:
    """A number from the metadata, where any provider may have written anything."""
    try:
        return _number(own.get(key, default), key)
    except ModelError:
        return default


def _condition(status: str) -> tuple[Health, str, bool]:
    if status not in STATUSES:
        raise ModelError(f"status is {status[:20]!r}; expected {', '.join(STATUSES)}")
    if status in ("UP", "OUT_OF_SERVICE"):
        return Health.PASSING, "", status == "UP"
    return Health.CRITICAL, "" if status == "DOWN" else status, True


def _text(given: Tree, name: str) -> str:
    value = given.get(name)
    if isinstance(value, Mapping | list | bool):
        raise ModelError(f"{name} is not a text")
    return as_text(value)


def as_text(value: object) -> str:
    """A value of JSON as text: clients in languages without types write numbers and truth values where a text is
    expected.

    Raises:
        ModelError: it is a number that is too large.
    """
    if isinstance(value, str):
        return value
    try:
        return "" if value is None else msgspec.json.encode(value).decode()
    except (OverflowError, ValueError, RecursionError) as error:
        raise ModelError(f"a value cannot be written as text: {error}") from None


def _number(value: object, name: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < MOST_DIGITS:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        raise ModelError(f"{name} is {str(value)[:20]!r}; expected a whole number")
    return value


def _port(given: Tree, name: str) -> tuple[int, bool]:
    """A port and whether it is enabled."""
    port = given.get(name)
    if port is None:
        return 0, False
    if not isinstance(port, Mapping):
        return _number(port, name), name == "port"
    enabled = port.get("@enabled", port.get("enabled", "true"))
    return _number(port.get("$", 0), name), as_text(enabled).lower() == "true"


def _metadata(given: Tree) -> dict[str, str]:
    metadata = given.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise ModelError("metadata is not an object")
    return _without_own({key: as_text(value) for key, value in metadata.items()})


def _without_own(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if not key.startswith((OWN, "@"))}
