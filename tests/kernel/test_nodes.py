"""The processes of a cluster."""

from __future__ import annotations

from slotreeve.model.nodes import Node, Role, Server


def test_assigners_and_balancers_get_name_zone_and_weight_of_a_node() -> None:
    node = Node("data-1", Role.DATA, "127.0.0.1:1", "data-1@abc", "east", 2.0)
    assert node.as_server() == Server("data-1", "east", 2.0)


def test_servers_are_ordered_by_name_first() -> None:
    assert sorted([Server("b", "a"), Server("a", "z", 9.0)]) == [Server("a", "z", 9.0), Server("b", "a")]


def test_a_role_is_written_as_a_lower_case_word() -> None:
    assert [str(role) for role in Role] == ["meta", "data", "session", "client", "tool", "gateway"]
