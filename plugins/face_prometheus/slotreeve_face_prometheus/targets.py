"""Instances as targets of Prometheus. Pure.

The form is that of Prometheus' "HTTP SD": a list of groups, each with ``targets`` (``host:port``) and ``labels``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slotreeve.model.data_info import DataInfo
from slotreeve_protocol.instance import Instance

PREFIX = "__meta_slotreeve_"
"""Labels that begin so are for relabelling, and Prometheus drops them afterwards."""
_NOT_IN_A_LABEL = re.compile(r"[^a-zA-Z0-9_]")
TargetGroup = dict[str, object]


def target_groups(data_info_id: str, instances: Iterable[Instance]) -> list[TargetGroup]:
    """A group for each instance, because labels differ. An instance without a port is no target."""
    service = DataInfo.parse(data_info_id)
    of_service = {
        "__meta_slotreeve_service": service.data_id,
        "__meta_slotreeve_service_instance": service.instance_id,
        "__meta_slotreeve_service_group": service.group,
    }
    return [
        {"targets": [instance.endpoint], "labels": {**of_service, **_labels(instance)}}
        for instance in instances
        if instance.port
    ]


def _labels(instance: Instance) -> dict[str, str]:
    labels = {
        f"{PREFIX}id": instance.id,
        f"{PREFIX}zone": instance.zone,
        f"{PREFIX}scheme": instance.scheme,
        f"{PREFIX}weight": str(instance.weight),
        f"{PREFIX}health": str(instance.health),
        f"{PREFIX}enabled": "true" if instance.enabled else "false",
    }
    if instance.tags:
        # As other discoveries do it: separators at both ends, so that a pattern finds a whole tag.
        labels[f"{PREFIX}tags"] = f",{','.join(instance.tags)},"
    for key, value in instance.metadata.items():
        labels.setdefault(f"{PREFIX}metadata_{_NOT_IN_A_LABEL.sub('_', key)}", value)
    return labels
