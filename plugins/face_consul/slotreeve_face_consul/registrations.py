"""Registrations as Consul's clients send them, as instances. Pure.

Keys may be written in either case, and with ``_`` between words: ``DeregisterCriticalServiceAfter``,
``deregister_critical_service_after``. What Consul knows and the registry has no place for is ignored, unless it would
make the instance something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from slotreeve.errors import ModelError
from slotreeve.model.data_info import DataInfo
from slotreeve_gateway.http import decoded
from slotreeve_protocol.instance import DEFAULT_WEIGHT, MAX_NOTE_LENGTH, MAX_WEIGHT, Health, Instance
from slotreeve_protocol.leases import LONGEST_TTL_SECONDS, SHORTEST_TTL_SECONDS

from slotreeve_face_consul.durations import seconds_of, text_of
from slotreeve_face_consul.options import ConsulOptions

CHECK_PREFIX = "service:"
"""The id of a service's check begins so; the id of the service follows."""
TTL_KEY = "consul-ttl"
"""The key of the metadata that holds the time to live of the TTL check. A gateway that did not see the registration
needs it to register the instance again when its health changes, and the lease itself does not show it. Without such a
check it is :data:`NO_TTL`."""
NO_TTL = "none"
AFTER_KEY = "consul-deregister-after"
"""The key of the metadata that holds ``DeregisterCriticalServiceAfter``, where it is given."""
MAINTENANCE_KEY = "consul-maintenance"
"""The key of the metadata that holds the reason of a maintenance while there is one."""
OWN_KEYS = frozenset((TTL_KEY, AFTER_KEY, MAINTENANCE_KEY))
"""The keys of the metadata that are this face's."""
_AGENT_RUNS = {"http", "tcp", "udp", "grpc", "h2ping", "args", "script", "dockercontainerid", "osservice", "aliasnode"}
_AGENT_RUNS.add("aliasservice")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}").fullmatch
_HEALTH = {health.value: health for health in Health}
_objects: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


@dataclass(frozen=True, slots=True)
class ConsulRegistration:
    """What is to be registered.

    Attributes:
        service: data info id.
        instance: the instance.
        ttl_seconds: time to live of its lease.
    """

    service: str
    instance: Instance
    ttl_seconds: float


class _Weights(msgspec.Struct):
    passing: int | None = None
    warning: int | None = None


class _Locality(msgspec.Struct):
    zone: str | None = None


class _Check(msgspec.Struct):
    checkid: str | None = None
    id: str | None = None
    status: str | None = None
    notes: str | None = None
    ttl: str | None = None
    deregistercriticalserviceafter: str | None = None


class _Service(msgspec.Struct):
    name: str | None = None
    id: str | None = None
    tags: list[str] | None = None
    address: str | None = None
    port: int | None = None
    meta: dict[str, str] | None = None
    kind: str | None = None


class _Update(msgspec.Struct):
    status: str | None = None
    output: str | None = None


def registration(body: bytes, caller_address: str, zone: str, options: ConsulOptions) -> ConsulRegistration:
    """The body of ``PUT /v1/agent/service/register``.

    Args:
        caller_address: the address of an instance that names none.
        zone: the zone of an instance that names none.

    Raises:
        ModelError: it is not good; the message says what is wrong.
    """
    given = _object(body)
    service = _converted("the registration", given, _Service)
    if not service.name:
        raise ModelError("Missing service name")
    if service.kind:
        raise ModelError(f"Kind is {service.kind[:60]!r}; proxies and gateways of a mesh cannot be registered")
    name = DataInfo(service.name, group=options.group).id
    service_id = service.id or service.name
    check, ttl_seconds = _check(given, service_id, options)
    metadata = {key: value for key, value in (service.meta or {}).items() if key not in OWN_KEYS}
    metadata[TTL_KEY] = NO_TTL if ttl_seconds is None else text_of(ttl_seconds)
    after = _after(check)
    if after and ttl_seconds is not None:
        metadata[AFTER_KEY] = text_of(after)
    health = _status(check.status) if check is not None and check.status else None
    if health is None:
        # As with Consul: nobody has said yet that it works.
        health = Health.PASSING if ttl_seconds is None else Health.CRITICAL
    locality = _part(given, "locality", _Locality)
    scheme = metadata.get("scheme", "")
    instance = Instance(
        service.address or caller_address,
        service.port or 0,
        scheme if _SCHEME(scheme) else "",
        _weight(_part(given, "weights", _Weights)),
        (locality.zone if locality is not None else None) or zone,
        tuple(dict.fromkeys(service.tags or ())),
        metadata,
        health,
        id=service_id,
    )
    return ConsulRegistration(name, instance, options.unchecked_seconds if ttl_seconds is None else ttl_seconds)


def ttl_seconds_of(instance: Instance) -> float | None:
    """The time to live that the TTL check of an instance has; None: it has no such check."""
    seconds = _kept(instance, TTL_KEY)
    return seconds if SHORTEST_TTL_SECONDS <= seconds <= LONGEST_TTL_SECONDS else None


def critical_seconds_of(instance: Instance, default: float) -> float:
    """How long an instance is shown as critical after its check has not been passed in time; ``default`` where its
    registration does not say it."""
    return _kept(instance, AFTER_KEY) or default


def _kept(instance: Instance, key: str) -> float:
    """A time that is kept in the metadata, where any provider may have written anything; 0: none."""
    try:
        return seconds_of(key, instance.metadata.get(key, ""))
    except ModelError:
        return 0.0


def update(body: bytes) -> tuple[Health, str]:
    """The body of ``PUT /v1/agent/check/update/ID``: health and output.

    Raises:
        ModelError: it is not good; the message says what is wrong.
    """
    given = _converted("the update", _object(body), _Update)
    return _status(given.status or ""), note(given.output or "")


def note(text: str) -> str:
    """A note of at most the length that an instance may have."""
    return text[:MAX_NOTE_LENGTH]


def _check(given: Mapping[str, object], service_id: str, options: ConsulOptions) -> tuple[_Check | None, float | None]:
    """The check of a registration, and the time to live where it is a TTL check."""
    listed = given.get("checks") or []
    if not isinstance(listed, list):
        raise ModelError("Checks is not a list")
    given_checks = [*([given["check"]] if given.get("check") else []), *listed]
    found: list[tuple[_Check, float]] = []
    for number, one in enumerate(given_checks, 1):
        lowered = _lowered(one if isinstance(one, dict) else _refuse(f"check {number} is not an object"))
        runs = sorted(kind for kind in _AGENT_RUNS if lowered.get(kind))
        if runs and not options.ignore_other_checks:
            raise ModelError(
                f"check {number} is of the kind {runs[0]}, which an agent would run; a gateway runs none: "
                "use a TTL check, or set face.consul.ignore_other_checks"
            )
        check = _converted(f"check {number}", lowered, _Check)
        _after(check)
        if check.ttl and not runs:
            found.append((check, _ttl(check.ttl)))
        elif not runs:
            raise ModelError(f"check {number} has no TTL")
    if len(found) > 1:
        raise ModelError(f"{len(found)} TTL checks are too many: an instance has one health, and so one check")
    if not found:
        return None, None
    check, ttl_seconds = found[0]
    check_id, right_id = check.checkid or check.id or "", CHECK_PREFIX + service_id
    if check_id not in ("", right_id):
        raise ModelError(f"CheckID is {check_id[:60]!r}; expected {right_id[:300]!r}")
    return check, ttl_seconds


def _after(check: _Check | None) -> float:
    text = check.deregistercriticalserviceafter if check is not None else None
    return seconds_of("DeregisterCriticalServiceAfter", text) if text else 0.0


def _ttl(text: str) -> float:
    seconds = seconds_of("TTL", text)
    if not 0 < seconds <= LONGEST_TTL_SECONDS:
        raise ModelError(f"TTL is {text!r}; expected more than 0 and at most {LONGEST_TTL_SECONDS:g} s")
    return max(seconds, SHORTEST_TTL_SECONDS)


def _status(text: str) -> Health:
    if text not in _HEALTH:
        raise ModelError(f"Invalid check status: {text[:20]!r}; expected {', '.join(_HEALTH)}")
    return _HEALTH[text]


def _weight(weights: _Weights | None) -> int:
    if weights is None or weights.passing is None:
        return DEFAULT_WEIGHT
    if not 1 <= weights.passing <= MAX_WEIGHT:
        raise ModelError(f"Weights.Passing is {weights.passing}; expected 1 to {MAX_WEIGHT}")
    return weights.passing


def _object(body: bytes) -> dict[str, object]:
    given: dict[str, object] = decoded(body, _objects)
    return _lowered(given)


def _lowered(given: Mapping[str, object]) -> dict[str, object]:
    return {key.lower().replace("_", ""): value for key, value in given.items()}


T = TypeVar("T")


def _part(given: Mapping[str, object], name: str, kind: type[T]) -> T | None:
    part = given.get(name)
    if part is None:
        return None
    return _converted(name, _lowered(part if isinstance(part, dict) else _refuse(f"{name} is not an object")), kind)


def _converted(what: str, given: Mapping[str, object], kind: type[T]) -> T:
    try:
        return msgspec.convert(given, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ModelError(f"{what}: {error}") from None


def _refuse(message: str) -> dict[str, object]:
    raise ModelError(message)
