"""The checks of being ready, and the catalogue of what servers count."""

from __future__ import annotations

from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable
from slotreeve_protocol.meta_messages import View
from slotreeve_servers.counted import BY_SERVER, COUNTED
from slotreeve_servers.node.readiness import Condition, membership_check


def view(*process_ids: str) -> View:
    nodes = [Node(name.partition("@")[0], Role.DATA, "127.0.0.1:1", name, "", 1.0) for name in process_ids]
    return View(1, 1, SlotTable(), nodes[:1], nodes[1:])


def test_a_process_is_a_member_by_its_own_id_not_by_its_name() -> None:
    assert membership_check(view("a@1", "b@2"), "a@1").passes
    assert membership_check(view("a@1", "b@2"), "b@2").passes
    check = membership_check(view("a@1", "b@2"), "b@3")
    assert check == Condition("member", "the meta leader does not count this server as a member")
    assert not check.passes


def test_no_counter_is_described_twice() -> None:
    assert len(COUNTED) == sum(map(len, BY_SERVER.values()))
