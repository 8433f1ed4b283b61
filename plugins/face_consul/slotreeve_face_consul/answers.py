"""Instances as Consul answers them. Pure.

Each instance is on a node of its own address: clients take the address of the node where a service names none.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from slotreeve_protocol.instance import Health, Instance

from slotreeve_face_consul.queries import ConsulQuery
from slotreeve_face_consul.registrations import CHECK_PREFIX, MAINTENANCE_KEY, OWN_KEYS, ttl_seconds_of

MAINTENANCE_PREFIX = "_service_maintenance:"
Json = dict[str, object]
_NO_INDEX = {"CreateIndex": 1, "ModifyIndex": 1}
"""Clients read them, and the registry has none for a single instance."""
encoded = msgspec.json.encode


def is_passing(instance: Instance) -> bool:
    """Whether all checks of the instance pass."""
    return instance.enabled and instance.health is Health.PASSING


def chosen(instances: Iterable[Instance], query: ConsulQuery, zone: str) -> list[Instance]:
    """The instances that a query asks for.

    Args:
        zone: the zone of the gateway, which is the agent's for ``near=_agent``.
    """
    found = [
        instance
        for instance in instances
        if (not query.passing or is_passing(instance))
        and (not query.tags or query.tags <= {tag.lower() for tag in instance.tags})
    ]
    if query.near:
        if query.near != "_agent":
            zone = next((instance.zone for instance in found if instance.address == query.near), "")
        found.sort(key=lambda instance: (instance.address != query.near, instance.zone != zone))
    return found


def node(instance: Instance, datacenter: str) -> Json:
    """The node that an instance is on."""
    address = instance.address
    return {
        "ID": "",
        "Node": address,
        "Address": address,
        "Datacenter": datacenter,
        "TaggedAddresses": {"lan": address, "wan": address},
        "Meta": {},
        **_NO_INDEX,
    }


def checks(service: str, instance: Instance) -> list[Json]:
    """The checks of an instance: that of its health, and the one that stands for a disabled instance."""
    health = _check(service, instance, f"{CHECK_PREFIX}{instance.id}", f"Service '{service}' check")
    health |= {
        "Status": instance.health.value,
        "Output": instance.health_note,
        "Type": "" if ttl_seconds_of(instance) is None else "ttl",
    }
    if instance.enabled:
        return [health]
    off = _check(service, instance, f"{MAINTENANCE_PREFIX}{instance.id}", "Service Maintenance Mode")
    off |= {"Status": Health.CRITICAL.value, "Output": "", "Type": "maintenance"}
    off["Notes"] = instance.metadata.get(MAINTENANCE_KEY) or "Maintenance mode is enabled for this service"
    return [health, off]


def _check(service: str, instance: Instance, check_id: str, name: str) -> Json:
    return {
        "Node": instance.address,
        "CheckID": check_id,
        "Name": name,
        "Notes": "",
        "ServiceID": instance.id,
        "ServiceName": service,
        "ServiceTags": instance.tags,
        "Interval": "",
        "Timeout": "",
        "ExposedPort": 0,
        "Definition": {},
        **_NO_INDEX,
    }


def meta(instance: Instance) -> dict[str, str]:
    """The metadata of an instance, with its scheme, and without what the face keeps there."""
    shown = {"scheme": instance.scheme} if instance.scheme else {}
    return shown | {key: value for key, value in instance.metadata.items() if key not in OWN_KEYS}


def weights(instance: Instance) -> dict[str, int]:
    """The weight of an instance, which is the same while it warns."""
    return {"Passing": instance.weight, "Warning": instance.weight}


def agent_service(service: str, instance: Instance, datacenter: str) -> Json:
    """An instance as ``/v1/agent/services`` shows it."""
    tagged = {"Address": instance.address, "Port": instance.port}
    return {
        "ID": instance.id,
        "Service": service,
        "Tags": instance.tags,
        "Meta": meta(instance),
        "Port": instance.port,
        "Address": instance.address,
        "TaggedAddresses": {"lan": tagged, "wan": tagged},
        "Weights": weights(instance),
        "EnableTagOverride": False,
        "Datacenter": datacenter,
        **({"Locality": {"Region": "", "Zone": instance.zone}} if instance.zone else {}),
        **_NO_INDEX,
    }


def health_entry(service: str, instance: Instance, datacenter: str) -> Json:
    """An instance as ``/v1/health/service`` shows it."""
    return {
        "Node": node(instance, datacenter),
        "Service": agent_service(service, instance, datacenter),
        "Checks": checks(service, instance),
    }


def catalog_entry(service: str, instance: Instance, datacenter: str) -> Json:
    """An instance as ``/v1/catalog/service`` shows it."""
    tagged = {"Address": instance.address, "Port": instance.port}
    return {
        **node(instance, datacenter),
        "NodeMeta": {},
        "ServiceKind": "",
        "ServiceID": instance.id,
        "ServiceName": service,
        "ServiceTags": instance.tags,
        "ServiceAddress": instance.address,
        "ServiceTaggedAddresses": {"lan": tagged, "wan": tagged},
        "ServiceWeights": weights(instance),
        "ServiceMeta": meta(instance),
        "ServicePort": instance.port,
        "ServiceEnableTagOverride": False,
        **({"ServiceLocality": {"Region": "", "Zone": instance.zone}} if instance.zone else {}),
    }


def agent_self(name: str, address: str, datacenter: str, version: str) -> Json:
    """``/v1/agent/self``: the gateway as an agent."""
    return {
        "Config": {
            "Datacenter": datacenter,
            "PrimaryDatacenter": datacenter,
            "NodeName": name,
            "NodeID": "",
            "Revision": "",
            "Server": False,
            "Version": version,
        },
        "DebugConfig": {"Datacenter": datacenter, "NodeName": name},
        "Coord": None,
        "Member": {
            "Name": name,
            "Addr": address,
            "Port": 8301,
            "Tags": {"dc": datacenter, "role": "node"},
            "Status": 1,
            "ProtocolMin": 1,
            "ProtocolMax": 5,
            "ProtocolCur": 2,
            "DelegateMin": 2,
            "DelegateMax": 5,
            "DelegateCur": 4,
        },
        "Stats": {},
        "Meta": {},
    }
