"""The parts of the balancer ``even``: the heap of lacking servers, leader moves and follower moves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve import Draft, Server, Slot, SlotTable
from slotreeve_balancer.even_followers import FollowerMoves
from slotreeve_balancer.even_leaders import LeaderMoves
from slotreeve_balancer.lacks import Lacks
from slotreeve_balancer.shares import Targets
from slotreeve_balancer.zones import Zones

LACKS = st.dictionaries(st.sampled_from("abcdef"), st.integers(-3, 3), min_size=1)


@settings(derandomize=True)
@given(LACKS, st.lists(st.tuples(st.sets(st.sampled_from("abcdef")), st.booleans()), max_size=8))
def test_servers_come_by_lack_then_by_name_as_a_sorted_list_gives_them(
    lacks: dict[str, int], steps: list[tuple[set[str], bool]]
) -> None:
    heap, twin = Lacks(lacks.items()), dict(lacks)
    for fitting, again in steps:
        expected = min((name for name in twin if name in fitting), key=lambda name: (-twin[name], name), default=None)
        assert heap.take(fitting.__contains__) == expected
        if expected is not None:
            lack = twin.pop(expected) - 1
            if again:
                heap.put_back(expected, lack)
                twin[expected] = lack


def parts(
    table: SlotTable, servers: list[Server], copies: int, limit: int = 9
) -> tuple[Draft, LeaderMoves, FollowerMoves]:
    draft, zones = Draft(table, servers), Zones(servers, copies)
    targets = Targets.of(draft, servers, copies, zones)
    leaders = LeaderMoves(draft, zones, targets.leaders, limit)
    return draft, leaders, FollowerMoves(draft, zones, targets, leaders)


def table(*rows: tuple[str, str]) -> SlotTable:
    """Slots with a leader and one follower each."""
    return SlotTable(1, tuple(Slot(number, leader, 1, (follower,)) for number, (leader, follower) in enumerate(rows)))


AB = [Server("a"), Server("b")]


def test_a_leader_with_a_surplus_hands_slots_to_its_followers_without_a_copy() -> None:
    draft, leaders, _ = parts(table(*[("a", "b")] * 4), AB, 2)
    leaders.hand_to_followers()
    assert (draft.leads("a"), draft.leads("b")) == (2, 2)
    assert {move.kind for move in draft.moves} == {"leader", "follower"}
    assert all(draft.holds(name, slot) for name in "ab" for slot in draft.slots)


def test_a_step_gives_one_server_no_more_leaders_than_its_limit() -> None:
    draft, leaders, _ = parts(table(*[("a", "b")] * 8), AB, 2, limit=1)
    leaders.hand_to_followers()
    assert (draft.leads("a"), draft.leads("b")) == (7, 1)


def test_no_leader_moves_to_a_copy_that_this_step_makes() -> None:
    draft, leaders, _ = parts(table(*[("a", "b")] * 4), AB, 2)
    for slot in draft.slots:
        leaders.mark_fresh(slot)
    leaders.hand_to_followers()
    assert draft.moves == ()


def test_a_new_server_gets_followed_slots_from_servers_with_a_surplus() -> None:
    rows = [("a", "b"), ("b", "a")] * 6
    draft, _, followers = parts(table(*rows), [*AB, Server("c")], 2)
    followers.give_to_needy()
    assert draft.follows("c") >= 4
    assert {move.kind for move in draft.moves} == {"follower"}


def test_followers_leave_a_zone_that_holds_two_copies_of_a_slot() -> None:
    servers = [Server("a", "east"), Server("b", "east"), Server("c", "west")]
    draft, _, followers = parts(table(("a", "b"), ("b", "a"), ("c", "a")), servers, 2)
    followers.separate_zones()
    zone = {server.name: server.zone for server in servers}
    for slot in draft.slots:
        assert zone[str(draft.leader(slot))] != zone[draft.followers(slot)[0]]
