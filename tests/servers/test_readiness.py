"""The checks of being ready, durations in ranges, and the catalogue of what servers count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable
from slotreeve_protocol.meta_messages import View
from slotreeve_servers.node.counted import BY_SERVER, COUNTED
from slotreeve_servers.node.readiness import Condition, membership_check
from slotreeve_servers.node.timings import BOUNDS_SECONDS, Timing


def view(*process_ids: str) -> View:
    nodes = [Node(name.partition("@")[0], Role.DATA, "127.0.0.1:1", name, "", 1.0) for name in process_ids]
    return View(1, 1, SlotTable(), nodes[:1], nodes[1:])


def test_a_process_is_a_member_by_its_own_id_not_by_its_name() -> None:
    assert membership_check(view("a@1", "b@2"), "a@1", "").passes
    assert membership_check(view("a@1", "b@2"), "b@2", "").passes
    check = membership_check(view("a@1", "b@2"), "b@3", "")
    assert check == Condition("member", "the meta leader does not count this server as a member")
    assert not check.passes
    refused = membership_check(view("a@1", "b@2"), "a@3", "the name 'a' is taken")
    assert refused == Condition("member", "the name 'a' is taken")


def test_no_counter_is_described_twice() -> None:
    assert len(COUNTED) == sum(map(len, BY_SERVER.values()))


@given(st.lists(st.one_of(st.floats(0, 20), st.sampled_from(BOUNDS_SECONDS))))
def test_durations_fall_into_the_range_that_ends_at_or_after_them(durations: list[float]) -> None:
    timing = Timing()
    for seconds in durations:
        timing.took(seconds)
    assert sum(timing.counts) == len(durations)
    for place, bound in enumerate(BOUNDS_SECONDS):
        assert sum(timing.counts[: place + 1]) == sum(seconds <= bound for seconds in durations)
    assert timing.total_seconds == sum(durations)
