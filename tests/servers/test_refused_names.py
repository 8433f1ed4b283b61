"""A process that was refused because of its predecessor, and has the name now, is no alarm."""

from __future__ import annotations

from slotreeve.model.nodes import Node, Role
from slotreeve_servers.meta.members.refused_names import RefusedNames


def process(life: int) -> Node:
    return Node("data-1", Role.DATA, "data-1:1", f"data-1@{life}")


def test_a_process_that_has_its_name_after_all_was_refused_by_mistake_however_long_it_has_it() -> None:
    names = RefusedNames(heartbeat_seconds=1.0)
    names.refuse(process(2), process(1), is_older=False, now=10.0)
    for number in range(5):
        names.heard(process(2), 10.5 + number)
    assert names.found == 0
    names.refuse(process(3), process(2), is_older=False, now=20.0)
    names.heard(process(2), 21.0)
    assert names.found == 1, "its rival lives"
