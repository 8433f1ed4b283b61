"""Instances as endpoints of Envoy."""

from __future__ import annotations

from typing import Any

import pytest
from slotreeve_face_envoy.assignments import assignment
from slotreeve_protocol.instance import Health, Instance


def endpoints(*instances: Instance) -> list[Any]:
    made: Any = assignment("web", instances)
    return [endpoint for locality in made["endpoints"] for endpoint in locality["lbEndpoints"]]


def test_the_fields_of_an_instance_stand_where_envoy_has_them() -> None:
    instance = Instance(
        "2001:db8::1", 8080, scheme="http", weight=7, zone="east", metadata={"version": "2"}, id="web-1"
    )
    fields = {"id": "web-1", "scheme": "http", "version": "2"}
    assert assignment("web", [instance]) == {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "clusterName": "web",
        "endpoints": [
            {
                "locality": {"zone": "east"},
                "lbEndpoints": [
                    {
                        "endpoint": {"address": {"socketAddress": {"address": "2001:db8::1", "portValue": 8080}}},
                        "healthStatus": "HEALTHY",
                        "loadBalancingWeight": 7,
                        "metadata": {"filterMetadata": {"slotreeve": fields, "envoy.lb": fields}},
                    }
                ],
            }
        ],
    }


def test_instances_of_a_zone_are_together_and_a_service_without_any_has_no_endpoints() -> None:
    made: Any = assignment("web", [Instance(f"10.0.0.{n}", 80, zone=z) for n, z in enumerate("bab")])
    assert [(one["locality"]["zone"], len(one["lbEndpoints"])) for one in made["endpoints"]] == [("a", 1), ("b", 2)]
    assert assignment("web", [])["endpoints"] == []


@pytest.mark.parametrize(
    "unusable",
    [Instance("10.0.0.1", 80, enabled=False), Instance("10.0.0.1"), Instance("web.example.com", 80)],
)
def test_an_instance_that_envoy_must_not_or_cannot_call_is_left_out(unusable: Instance) -> None:
    assert endpoints(unusable, Instance("10.0.0.2", 80)) == endpoints(Instance("10.0.0.2", 80))


@pytest.mark.parametrize(
    ("health", "status"), [(Health.PASSING, "HEALTHY"), (Health.WARNING, "HEALTHY"), (Health.CRITICAL, "UNHEALTHY")]
)
def test_an_instance_that_does_not_work_is_unhealthy(health: Health, status: str) -> None:
    assert endpoints(Instance("10.0.0.1", 80, health=health))[0]["healthStatus"] == status


def test_weight_0_drains_unless_all_have_it() -> None:
    drained, other = Instance("10.0.0.1", 80, weight=0), Instance("10.0.0.2", 80, weight=5)
    assert [(one["healthStatus"], one["loadBalancingWeight"]) for one in endpoints(drained, other)] == [
        ("DRAINING", 1),
        ("HEALTHY", 5),
    ]
    assert endpoints(drained)[0]["healthStatus"] == "HEALTHY"
