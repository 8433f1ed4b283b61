"""Instances as Envoy's ``ClusterLoadAssignment`` (envoy.config.endpoint.v3), in the JSON form of protobuf. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve_protocol.addresses import AddressKind
from slotreeve_protocol.instance import Health, Instance

TYPE_URL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
METADATA = "slotreeve"
"""The key below which an endpoint's metadata stand, for matching in routes; ``envoy.lb`` has them, too."""
Assignment = dict[str, object]


def assignment(cluster_name: str, instances: Iterable[Instance]) -> Assignment:
    """All endpoints of a service, grouped by zone.

    A disabled instance is left out, as is one whose address is a name: Envoy takes IP addresses here. One of weight 0
    gets no new traffic (``DRAINING``), unless all have weight 0.
    """
    usable = [one for one in instances if one.enabled and one.port and one.address_kind is not AddressKind.NAME]
    all_zero = all(one.weight == 0 for one in usable)
    zones: dict[str, list[Instance]] = {}
    for instance in usable:
        zones.setdefault(instance.zone, []).append(instance)
    return {
        "@type": TYPE_URL,
        "clusterName": cluster_name,
        "endpoints": [
            {"locality": {"zone": zone}, "lbEndpoints": [_endpoint(one, all_zero) for one in members]}
            for zone, members in sorted(zones.items())
        ],
    }


def _endpoint(instance: Instance, all_zero: bool) -> dict[str, object]:
    fields = {"id": instance.id, "scheme": instance.scheme, **instance.metadata}
    is_drained = instance.weight == 0 and not all_zero
    return {
        "endpoint": {"address": {"socketAddress": {"address": instance.address, "portValue": instance.port}}},
        "healthStatus": "DRAINING" if is_drained else _health(instance.health),
        # Envoy refuses a weight of 0.
        "loadBalancingWeight": max(1, instance.weight),
        "metadata": {"filterMetadata": {METADATA: fields, "envoy.lb": fields}},
    }


def _health(health: Health) -> str:
    return "UNHEALTHY" if health is Health.CRITICAL else "HEALTHY"
