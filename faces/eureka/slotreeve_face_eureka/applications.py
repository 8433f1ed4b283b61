"""Instances as Eureka has them, and back. Pure.

An application of Eureka is a service whose data id is the application's name in small letters; it is shown in capitals.
What an instance has no field for stands in its metadata under keys that begin with ``eureka-``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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
        "lastUpdatedTimestamp": "0",
        "lastDirtyTimestamp": "0",
        "actionType": "ADDED",
    }


def hashcode(statuses: Iterable[str]) -> str:
    """``apps__hashcode``: how many instances have which status. Clients compare it with that of their own copy."""
    return "".join(f"{status}_{count}_" for status, count in sorted(Counter(statuses).items()))


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
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ModelError(f"{name} is not a text")
    return value


def _number(value: object, name: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12:
        return int(value)
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
    return _number(port.get("$", 0), name), enabled in (True, "true")


def _metadata(given: Tree) -> dict[str, str]:
    metadata = given.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise ModelError("metadata is not an object")
    try:
        found = msgspec.convert(dict(metadata), dict[str, str])
    except msgspec.ValidationError as error:
        raise ModelError(f"metadata: {error}") from None
    return {key: value for key, value in found.items() if not key.startswith((OWN, "@"))}
