"""Instances as targets of Prometheus."""

from __future__ import annotations

from slotreeve_face_prometheus.targets import target_groups
from slotreeve_protocol.instance import Health, Instance

SERVICE = "com.example.Web#@#tenant#@#GROUP"


def test_an_instance_becomes_a_group_whose_labels_are_its_fields() -> None:
    instance = Instance(
        "2001:db8::1",
        8080,
        scheme="https",
        weight=7,
        zone="east",
        tags=("a", "b"),
        metadata={"team.name": "x", "team-name": "y"},
        health=Health.WARNING,
        enabled=False,
        id="web-1",
    )
    (group,) = target_groups(SERVICE, [instance])
    assert group == {
        "targets": ["[2001:db8::1]:8080"],
        "labels": {
            "__meta_slotreeve_service": "com.example.Web",
            "__meta_slotreeve_service_instance": "tenant",
            "__meta_slotreeve_service_group": "GROUP",
            "__meta_slotreeve_id": "web-1",
            "__meta_slotreeve_zone": "east",
            "__meta_slotreeve_scheme": "https",
            "__meta_slotreeve_weight": "7",
            "__meta_slotreeve_health": "warning",
            "__meta_slotreeve_enabled": "false",
            "__meta_slotreeve_tags": ",a,b,",
            "__meta_slotreeve_metadata_team_name": "x",
        },
    }


def test_an_instance_without_a_port_is_no_target() -> None:
    assert target_groups("web", [Instance("10.0.0.1"), Instance("10.0.0.2", 80)])[0]["targets"] == ["10.0.0.2:80"]
    assert target_groups("web", []) == []


def test_an_instance_without_tags_has_no_label_of_them() -> None:
    (group,) = target_groups("web", [Instance("10.0.0.1", 80)])
    labels = group["labels"]
    assert isinstance(labels, dict)
    assert "__meta_slotreeve_tags" not in labels
