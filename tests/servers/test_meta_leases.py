"""The leases of members at the meta leader, and a leader that those do not reach who should."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_servers.meta.members.leases import MISSING_SECONDS, RESTARTING, Leases, Renewal
from slotreeve_servers.meta.members.unreached import LONGEST_SECONDS, Unreached
from slotreeve_servers.meta.settings import MetaSettings

from tests.servers.recording_outbox import RecordingOutbox

RULES = MetaSettings(lease_seconds=6.0, lost_connection_seconds=0.5, unseen_seconds=2.0)


def node(name: str, life: int = 1) -> Node:
    role = Role.DATA if name.startswith("data") else Role.SESSION
    return Node(name, role, f"{name}:1", f"{name}@{life}")


# --- a leader that is not reached ------------------------------------------------------------------------------------


class Silence:
    """A leader with these members, of which only the session servers in ``heard`` are heard."""

    def __init__(self, lease_seconds: float, *members: str, heard: tuple[str, ...] = ()) -> None:
        self.members, self.heard = [node(name) for name in members or ("session-1",)], heard
        self.outbox, self.leases = RecordingOutbox(), Leases(RULES)
        self.unreached = Unreached(self.outbox, self.leases, lease_seconds)

    def seconds_until_it_resigns(self) -> int:
        """Counted from a new term on."""
        self.leases.adopt(self.members, {}, self.outbox.attended())
        for seconds in range(1, 5000):
            self.outbox.advance(1.0)
            for name in self.heard:
                self.leases.renew(node(name), self.outbox.attended())
                self.unreached.heard(node(name).role)
            self.unreached.look(meta_servers=2)
            if self.outbox.take("resign"):
                return seconds
        raise AssertionError("it does not resign")


def test_the_wait_of_an_unreached_leader_doubles_up_to_a_bound_and_begins_anew_once_it_is_reached() -> None:
    silence = Silence(6.0)
    assert [silence.seconds_until_it_resigns() for _ in range(7)] == [12, 24, 48, 96, 192, *(2 * [LONGEST_SECONDS])]
    silence.unreached.heard(Role.SESSION)
    assert silence.seconds_until_it_resigns() == 12


def test_a_leader_that_no_data_server_reaches_resigns_whoever_else_reaches_it() -> None:
    silence = Silence(6.0, "data-1", "session-1", "session-2", heard=("session-1",))
    assert [silence.seconds_until_it_resigns() for _ in range(3)] == [12, 24, 48]
    silence.unreached.heard(Role.DATA)
    assert silence.seconds_until_it_resigns() == 12


def test_a_leader_whose_views_are_not_stored_resigns_whoever_reaches_it() -> None:
    silence = Silence(6.0, "data-1", heard=("data-1",))
    for expected in (12, 24, 48):
        silence.unreached.adopted()
        silence.unreached.heard(Role.DATA)
        silence.unreached.not_committed()
        assert silence.seconds_until_it_resigns() == expected
    silence.unreached.adopted()
    silence.unreached.committed()
    silence.unreached.not_committed()
    assert silence.seconds_until_it_resigns() == 12, "a view was stored, at the first attempt"


def test_a_view_that_failed_and_is_not_needed_any_more_is_no_reason_to_resign() -> None:
    silence = Silence(6.0, "data-1", heard=("data-1",))
    silence.unreached.not_committed()
    silence.unreached.not_needed()
    with pytest.raises(AssertionError, match="it does not resign"):
        silence.seconds_until_it_resigns()


@pytest.mark.parametrize("data", [(), ("data-1",)], ids=["no_data_server", "one_that_is_away"])
def test_a_leader_whose_data_servers_are_all_away_is_content_with_session_servers(data: tuple[str, ...]) -> None:
    silence = Silence(6.0, *data, "session-1", heard=("session-1",))
    silence.leases.adopt(silence.members, {}, silence.outbox.attended())
    for name in data:
        silence.leases.leave(node(name), 60.0, silence.outbox.attended())
    for _ in range(50):
        silence.outbox.advance(1.0)
        silence.leases.renew(node("session-1"), silence.outbox.attended())
        silence.unreached.look(meta_servers=2)
    assert silence.outbox.take("resign") == []


def test_a_process_that_is_refused_its_name_shows_that_the_leader_is_reached() -> None:
    silence = Silence(6.0, "data-1")
    silence.leases.adopt(silence.members, {}, silence.outbox.attended())
    for _ in range(50):
        silence.outbox.advance(1.0)
        silence.leases.refused(Role.DATA, silence.outbox.attended())
        silence.unreached.look(meta_servers=2)
    assert silence.outbox.take("resign") == []


def test_the_only_meta_server_does_not_resign() -> None:
    silence = Silence(6.0)
    silence.leases.adopt([node("session-1")], {}, silence.outbox.attended())
    silence.outbox.advance(2 * LONGEST_SECONDS)
    silence.unreached.look(meta_servers=1)
    assert silence.outbox.take("resign") == []
    silence.unreached.look(meta_servers=2)
    assert len(silence.outbox.take("resign")) == 1


def test_two_long_leases_are_waited_for_whatever_the_bound_is() -> None:
    silence = Silence(600.0)
    assert [silence.seconds_until_it_resigns() for _ in range(2)] == [1200, 1200]


# --- leases ----------------------------------------------------------------------------------------------------------


def test_a_renewal_tells_what_it_changed() -> None:
    leases = Leases(RULES)
    assert leases.renew(node("a"), 0.0) is Renewal.JOINED
    assert leases.renew(node("a"), 1.0) is Renewal.NOTHING
    assert leases.renew(node("a", life=2), 2.0) is Renewal.CHANGED


def test_a_late_notice_about_a_former_process_shortens_nothing() -> None:
    leases = Leases(RULES)
    leases.renew(node("a", life=2), 0.0)
    leases.connection_lost("a", "a@1", 0.0)
    assert leases.expire(1.0) == []
    leases.connection_lost("a", "a@2", 1.0)
    assert leases.expire(1.5) == [(node("a", life=2), "connection lost")]


def heard_from(leases: Leases, other: str, first: float, last: float) -> None:
    """Another server sends a heartbeat every second, so that time counts."""
    for number in range(int(last - first) + 1):
        leases.renew(node(other), first + number)


def test_a_new_leader_gives_connected_members_a_lease_and_the_others_a_short_time() -> None:
    leases = Leases(RULES)
    leases.adopt([node("a"), node("b"), node("c")], {"a@1": 0.0, "c@1": 0.0}, 10.0)
    assert leases.next_in(10.0) == 2.0
    leases.renew(node("c"), 11.0)
    assert leases.expire(11.9) == []
    assert leases.expire(12.0) == [(node("b"), "not seen")]
    heard_from(leases, "c", 12.0, 15.0)
    assert leases.expire(15.9) == []
    assert leases.expire(16.0) == [(node("a"), "lease expired")]


def test_a_session_server_that_is_not_heard_any_more_is_named_as_missing_for_a_while() -> None:
    leases = Leases(RULES)
    for name in ("session-1", "session-2", "session-3", "data-1"):
        leases.renew(node(name), 0.0)
    assert leases.leave(node("session-3"), 0.0, 0.0)
    heard_from(leases, "data-2", 1.0, 5.0)
    leases.renew(node("session-1"), 5.0)
    heard_from(leases, "data-2", 6.0, 7.0)
    leases.expire(7.0)
    assert leases.missing(7.0) == ["session-2@1"]
    next_leader = Leases(RULES)
    next_leader.adopt([], {}, 8.0, ["session-2@1"])
    assert next_leader.missing(8.0 + MISSING_SECONDS - 1.0) == ["session-2@1"]
    assert next_leader.missing(8.0 + MISSING_SECONDS) == []
    leases.renew(node("session-2"), 8.0)
    assert leases.missing(8.0) == []


def test_after_a_time_without_connections_every_server_has_a_short_time() -> None:
    leases = Leases(RULES)
    leases.renew(node("a"), 0.0)
    heard_from(leases, "b", 1.0, 5.5)
    leases.extend_all(5.9)
    heard_from(leases, "b", 6.0, 7.5)
    assert leases.expire(7.8) == []
    assert leases.expire(7.9) == [(node("a"), "lease expired")]


def test_while_no_server_at_all_is_heard_a_lease_lasts_no_longer_than_a_short_silence() -> None:
    leases = Leases(RULES)
    for name in "abc":
        leases.renew(node(name), 0.0)
    leases.connection_lost("b", "b@1", 1.0)
    assert leases.expire(600.0) == [(node("b"), "connection lost")]
    leases.renew(node("a"), 601.0)
    heard_from(leases, "a", 602.0, 606.0)
    assert leases.expire(606.9) == []
    assert leases.expire(607.0) == [(node("c"), "lease expired")]


@pytest.mark.parametrize("gap", [1.0, 1.9, 2.4, 3.0, 5.0, 30.0])
def test_a_dead_server_loses_its_lease_however_seldom_another_one_is_heard(gap: float) -> None:
    leases, now = Leases(RULES), 0.0
    for name in ("data-1", "data-2"):
        leases.renew(node(name), 0.0)
    gone = list[str]()
    while not gone:
        now += gap
        leases.renew(node("data-1"), now)
        gone = [each.name for each, _ in leases.expire(now)]
        assert now <= 12.0 * max(1.0, gap / 2.0)
    assert gone == ["data-2"]


def test_after_a_long_time_without_connections_each_server_has_a_whole_lease_to_be_heard_again() -> None:
    leases = Leases(RULES)
    for name in ("a", "data-1", "data-2"):
        leases.renew(node(name), 0.0)
        leases.connection_lost(name, f"{name}@1", 0.5)
    leases.extend_all(60.0)
    leases.connection_made("a", Role.SESSION, "a@1", 60.0)
    heard_from(leases, "a", 60.0, 61.0)
    leases.connection_made("data-1", Role.DATA, "data-1@1", 61.5)
    heard_from(leases, "data-1", 62.0, 67.0)
    heard_from(leases, "a", 62.0, 67.0)
    assert leases.expire(67.4) == []
    assert leases.expire(67.5) == [(node("data-2"), "connection lost")]


def test_a_dead_server_loses_its_lease_although_the_only_other_one_connects_again_and_again() -> None:
    leases, now = Leases(RULES), 0.0
    for name in ("data-1", "data-2"):
        leases.renew(node(name), 0.0)
    while "data-2" in {each.name for each in leases.nodes}:
        now += 1.0
        leases.connection_lost("data-1", "data-1@1", now)
        leases.extend_all(now + 0.2)
        leases.connection_made("data-1", Role.DATA, "data-1@1", now + 0.2)
        leases.renew(node("data-1"), now + 0.3)
        leases.expire(now + 0.4)
        assert now < 10.0


def test_a_member_that_has_been_silent_has_less_of_its_lease_left_at_a_new_leader() -> None:
    leases = Leases(RULES)
    leases.adopt([node("a"), node("b")], {"a@1": 0.2, "b@1": 4.5}, 10.0)
    heard_from(leases, "a", 10.0, 11.0)
    assert leases.expire(11.6) == []
    assert leases.expire(11.75) == [(node("b"), "lease expired")]
    leases.adopt([node("a"), node("b")], {"a@1": 0.2, "b@1": 60.0}, 20.0)
    assert leases.expire(20.0) == [(node("b"), "lease expired")]


def test_a_new_leader_does_not_count_time_in_which_it_heard_nobody() -> None:
    """It was cut off from all members, as the leader before it was: each of them has had no chance to be heard."""
    leases = Leases(RULES)
    nodes = [node("data-1"), node("data-2"), node("a")]
    leases.adopt(nodes, {"data-1@1": 13.0, "data-2@1": 13.4, "a@1": 12.9}, 20.0)
    assert leases.expire(60.0) == []
    heard_from(leases, "data-1", 61.0, 66.9)
    assert leases.expire(66.9) == []
    leases.renew(node("data-1"), 67.0)
    assert [each.name for each, _ in leases.expire(67.1)] == ["a", "data-2"]


def table_of(*rows: tuple[str, str]) -> SlotTable:
    """Of each slot, who leads it, and who follows, if anybody."""
    return SlotTable(1, tuple(Slot(i, leader, 1, (name,) if name else ()) for i, (leader, name) in enumerate(rows)))


def test_who_leads_a_slot_alone_is_a_member_as_long_as_it_may_act_on_its_last_heartbeat() -> None:
    table = table_of(("data-1", ""), ("data-3", "data-2"), ("data-2", ""))
    leases = Leases(RULES)
    for name in ("data-1", "data-2", "data-3"):
        leases.renew(node(name), 10.0)
    leases.connection_lost("data-1", "data-1@1", 10.5)
    leases.connection_lost("data-3", "data-3@1", 10.5)
    assert [each.name for each, _ in leases.expire(11.0, table)] == ["data-3"], "somebody follows it"
    assert leases.next_in(11.0) == pytest.approx(3.0)
    assert leases.expire(13.9, table) == []
    assert leases.expire(14.0, table) == [(node("data-1"), "connection lost")]
    leases.renew(node("data-2"), 14.0)
    leases.leave(node("data-2"), 0.0, 14.1)
    assert leases.nodes == [], "it has said that it leaves"


def test_who_is_back_while_it_may_act_is_a_member_as_before_and_one_without_slots_leaves() -> None:
    leases, table = Leases(RULES), table_of(("data-1", ""), ("data-2", ""))
    for name in ("data-1", "data-2"):
        leases.renew(node(name), 10.0)
    leases.connection_lost("data-1", "data-1@1", 10.5)
    assert leases.expire(11.0, table) == []
    assert leases.renew(node("data-1"), 12.0) is Renewal.CHANGED, "it has a lease again, so others plan for it"
    assert leases.renew(node("data-1"), 12.0) is Renewal.NOTHING
    assert leases.expire(12.0, table) == []
    leases.connection_lost("data-1", "data-1@1", 12.5)
    assert leases.expire(13.0, table) == []
    assert leases.expire(13.1, table_of(("data-2", ""))) == [(node("data-1"), "connection lost")]


def test_who_follows_nobody_that_lives_acts_alone() -> None:
    leases, table = Leases(RULES), table_of(("data-1", "data-2"), ("data-2", "data-1"))
    for name in ("data-1", "data-2", "data-3"):
        leases.renew(node(name), 10.0)
    for name in ("data-1", "data-2"):
        leases.connection_lost(name, f"{name}@1", 10.5)
    assert leases.expire(11.0, table) == []
    assert [each.name for each, _ in leases.expire(14.0, table)] == ["data-1", "data-2"]


def test_the_leader_before_may_have_granted_a_lease_just_now() -> None:
    leases, table = Leases(RULES), table_of(("data-1", ""))
    leases.adopt([node("data-1"), node("data-2")], {"data-2@1": 0.0}, 10.0)
    heard_from(leases, "data-2", 10.0, 13.0)
    assert leases.expire(13.9, table) == []
    assert leases.expire(14.0, table) == [(node("data-1"), "not seen")]


def test_who_stops_for_a_restart_and_does_not_come_back_does_not_act() -> None:
    leases = Leases(RULES)
    for name in ("data-1", "data-2"):
        leases.renew(node(name), 10.0)
    leases.leave(node("data-1"), 1.0, 10.1)
    assert leases.expire(11.2, table_of(("data-1", ""))) == [(node("data-1"), RESTARTING)]


def test_one_that_is_away_is_no_live_follower() -> None:
    leases, table = Leases(RULES), table_of(("data-1", "data-2"))
    for name in ("data-1", "data-2", "data-3"):
        leases.renew(node(name), 10.0)
    leases.leave(node("data-2"), 30.0, 10.1)
    assert leases.away == {"data-2"}
    leases.connection_lost("data-1", "data-1@1", 10.5)
    assert (leases.expire(11.0, table), sorted(leases.acting)) == ([], ["data-1"])
    leases.renew(node("data-2", life=2), 12.0)
    assert not leases.away


def test_a_new_leader_goes_on_with_those_that_act_or_are_away() -> None:
    leases, table = Leases(RULES), table_of(("data-1", ""), ("data-4", ""))
    nodes = [node(f"data-{number}") for number in range(1, 5)]
    leases.adopt(nodes, {"data-2@1": 0.0, "data-4@1": 0.0}, 20.0, acting=["data-1", "data-4"], away=["data-3"])
    assert (leases.expire(20.0, table), sorted(leases.acting), sorted(leases.away)) == ([], ["data-1"], ["data-3"])
    heard_from(leases, "data-2", 20.0, 23.9)
    assert leases.expire(23.9, table) == [(node("data-3"), RESTARTING)]
    assert leases.expire(24.0, table) == [(node("data-1"), "not seen")]


def test_how_long_one_was_silent_says_nothing_about_what_the_leader_before_has_granted() -> None:
    leases, table = Leases(RULES), table_of(("data-1", ""))
    leases.adopt([node("data-1"), node("data-2")], {"data-1@1": 4.9, "data-2@1": 0.0}, 20.0)
    heard_from(leases, "data-2", 20.0, 23.9)
    assert leases.expire(23.9, table) == []
    assert leases.expire(24.0, table) == [(node("data-1"), "lease expired")]


def test_sessions_that_are_heard_do_not_count_where_no_data_server_was() -> None:
    leases = Leases(RULES)
    nodes = [node("data-1"), node("data-2"), node("a")]
    leases.adopt(nodes, {"data-1@1": 13.0, "data-2@1": 13.4, "a@1": 0.1}, 20.0)
    leases.renew(node("a"), 21.0)
    assert leases.expire(21.0) == []


def test_who_acts_and_says_that_it_leaves_acts_no_more() -> None:
    leases, table = Leases(RULES), table_of(("data-1", ""))
    leases.renew(node("data-1"), 10.0)
    leases.renew(node("data-2"), 10.0)
    leases.connection_lost("data-1", "data-1@1", 10.5)
    assert (leases.expire(11.0, table), sorted(leases.acting)) == ([], ["data-1"])
    leases.leave(node("data-1"), 0.0, 11.0)
    assert not leases.acting
    assert leases.next_in(11.0) is not None


def test_members_by_a_view_that_was_not_known_have_a_lease_to_be_heard() -> None:
    leases = Leases(RULES)
    leases.renew(node("data-1"), 10.0)
    leases.expect([node("data-1", life=0), node("data-2")], 10.5)
    assert leases.nodes == [node("data-1"), node("data-2")]
    assert leases.rival(node("data-2", life=2)) is None
    heard_from(leases, "data-1", 11.0, 16.4)
    assert leases.expire(16.4) == []
    assert leases.expire(16.5) == [(node("data-2"), "not seen")]


def test_where_time_stands_still_before_a_lease_ends_the_next_look_comes_after_a_heartbeat() -> None:
    leases = Leases(RULES)
    leases.renew(node("data-1"), 10.0)
    assert leases.next_in(10.0) == pytest.approx(6.0)
    leases.renew(node("a"), 15.0)
    leases.connection_lost("data-1", "data-1@1", 15.0)
    assert leases.next_in(15.0) == pytest.approx(1.0), "nobody has been heard for long: it is not over in 0.5 s"
    leases.renew(node("data-2"), 15.2)
    assert leases.next_in(15.2) == pytest.approx(5.8)


def test_while_session_servers_are_heard_and_no_data_server_no_lease_of_a_data_server_ends() -> None:
    leases = Leases(RULES)
    leases.adopt([node("data-1"), node("data-2"), node("a"), node("b")], {"a@1": 0.0, "b@1": 0.0}, 0.0)
    heard_from(leases, "a", 0.0, 600.0)
    assert leases.expire(600.0) == [(node("b"), "lease expired")]
    leases.connection_made("data-1", Role.DATA, "data-1@1", 600.5)
    heard_from(leases, "data-1", 601.0, 606.0)
    heard_from(leases, "a", 601.0, 606.0)
    assert leases.expire(606.4) == []
    assert leases.expire(606.5) == [(node("data-2"), "not seen")]


def test_where_the_machines_of_all_data_servers_went_down_their_names_are_free_after_a_lease() -> None:
    """Found by the simulator: each was refused the name of its own former process for good, because no lease of a data
    server ended. That the next process is refused shows that this leader hears data servers."""
    leases, names = Leases(RULES), ("data-1", "data-2", "data-3")
    for name in names:
        leases.renew(node(name), 0.0)
    for second in range(1, 6):
        leases.renew(node("session-1"), float(second))
        for name in names:
            assert leases.rival(node(name, life=2)) is not None
            leases.refused(Role.DATA, float(second))
        assert leases.expire(float(second)) == []
    assert [each.name for each, _ in leases.expire(6.0)] == list(names)
    assert leases.rival(node("data-1", life=2)) is None


def test_a_server_keeps_its_name_through_a_time_in_which_its_leader_hears_nobody() -> None:
    leases = Leases(RULES)
    leases.renew(node("data-1"), 0.0)
    assert leases.expire(600.0) == []
    assert leases.silent_seconds(600.0) == 600.0
    leases.refused(Role.DATA, 600.0)
    leases.connection_made("data-1", Role.DATA, "data-1@1", 600.0)
    assert leases.rival(node("data-1", life=2)) is not None
    assert leases.expire(605.9) == []
    leases.renew(node("data-1"), 605.9)
    assert leases.rival(node("data-1", life=2)) is not None


def test_a_new_leader_that_reaches_no_data_server_at_all_removes_none() -> None:
    leases = Leases(RULES)
    leases.adopt([node("data-1"), node("data-2"), node("a")], {"a@1": 0.0}, 10.0)
    heard_from(leases, "a", 10.0, 12.0)
    assert leases.expire(12.5) == []
    leases.adopt([node("data-1"), node("data-2"), node("a")], {"a@1": 0.0, "data-2@1": 0.0}, 20.0)
    heard_from(leases, "data-2", 21.0, 21.0)
    assert leases.expire(21.9) == []
    assert leases.expire(22.0) == [(node("data-1"), "not seen")]


def test_the_last_data_server_that_ends_loses_its_lease_as_fast_as_another() -> None:
    leases = Leases(RULES)
    leases.renew(node("data-1"), 0.0)
    leases.renew(node("a"), 0.5)
    leases.connection_lost("data-1", "data-1@1", 0.9)
    assert leases.expire(1.4) == [(node("data-1"), "connection lost")]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["renew", "lost", "made", "leave", "restart", "expire"]),
        st.sampled_from(["a", "b", "data-1", "data-2"]),
        st.integers(1, 2),
        st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    ),
    max_size=40,
)


@given(STEPS)
def test_leases_are_what_a_list_of_deadlines_says(steps: list[tuple[str, str, int, float]]) -> None:
    """The dumb twin holds (process, deadline) for each name and scans them all."""
    leases, now = Leases(RULES), 0.0
    twin: dict[str, tuple[str, float]] = {}
    noticed: set[str] = set()
    lost: set[str] = set()
    awaited: set[str] = set()
    heard = list[float]()
    data_heard = list[float]()

    def passed(name: str) -> float:
        """Of each silence, and of the one before the first heartbeat, 2 s count at most."""
        times = [-math.inf, *(data_heard if name.startswith("data") else heard), now]
        return sum(min(after - before, 2.0) for before, after in pairwise(times))

    def hear(times: list[float], names: list[str]) -> None:
        was_silent = not times or now - times[-1] >= 2.0
        times.append(now)
        for n in [n for n in names if was_silent and n not in awaited]:
            awaited.add(n)
            twin[n] = twin[n][0], max(twin[n][1], passed(n) + 6.0)

    for verb, name, life, pause in steps:
        now += pause
        process = f"{name}@{life}"
        if verb in ("renew", "made"):
            hear(heard, [n for n in twin if not n.startswith("data")])
            if name.startswith("data"):
                hear(data_heard, [n for n in twin if n.startswith("data")])
        mine = name in twin and twin[name][0] == process
        if verb == "renew":
            leases.renew(node(name, life), now)
            twin[name] = process, passed(name) + 6.0
            awaited.discard(name)
            noticed.discard(name)
            lost.discard(name)
        elif verb == "lost":
            leases.connection_lost(name, process, now)
            if mine and name not in noticed:
                twin[name] = process, min(twin[name][1], passed(name) + 0.5)
                noticed.add(name)
                lost.add(name)
        elif verb == "made":
            leases.connection_made(name, node(name).role, process, now)
            if mine and name in lost:
                twin[name] = process, max(twin[name][1], passed(name) + 2.0)
                noticed.discard(name)
                lost.discard(name)
        elif verb in ("leave", "restart"):
            back_in = 0.0 if verb == "leave" else 3.0
            assert leases.leave(node(name, life), back_in, now) is mine
            if mine:
                lost.discard(name)
            if mine and (not back_in or not name.startswith("data")):
                del twin[name]
                awaited.discard(name)
                noticed.discard(name)
            elif mine:
                twin[name] = process, passed(name) + back_in
                noticed.add(name)
        else:
            gone = {n.name for n, _ in leases.expire(now)}
            assert gone == {n for n, (_, deadline) in twin.items() if deadline - passed(n) < 1e-9}
            for each in gone:
                del twin[each]
                awaited.discard(each)
                noticed.discard(each)
                lost.discard(each)
        assert [n.name for n in leases.nodes] == sorted(twin)
        runs = {n: 2.0 - (now - max([-math.inf, *(data_heard if n.startswith("data") else heard)])) for n in twin}
        due = {n: deadline - passed(n) for n, (_, deadline) in twin.items()}
        looks = [seconds if seconds <= max(0.0, runs[n]) else max(seconds, 1.0) for n, seconds in due.items()]
        left = min(looks, default=None)
        assert leases.next_in(now) == (left if left is None else pytest.approx(left))


def test_who_was_heard_after_one_silence_has_a_whole_lease_to_be_heard_after_the_next_one() -> None:
    leases = Leases(RULES)
    for name in ("a", "b"):
        leases.renew(node(name), 0.0)
    for name in ("a", "b"):
        leases.renew(node(name), 100.0)
    heard_from(leases, "a", 101.0, 105.0)
    leases.renew(node("a"), 200.0)
    assert leases.expire(200.0) == [], "nobody was heard from 105 to 200, so b could not be either"
    heard_from(leases, "a", 201.0, 205.0)
    assert leases.expire(205.9) == []
    assert leases.expire(206.0) == [(node("b"), "lease expired")]


def test_a_process_that_was_replaced_cannot_leave_for_the_next_one() -> None:
    leases = Leases(RULES)
    leases.renew(node("data-1", 1), 0.0)
    leases.renew(node("data-1", 2), 1.0)
    assert not leases.leave(node("data-1", 1), 0.0, 1.1)
    assert not leases.leave(node("data-1", 1), 30.0, 1.1)
    assert leases.nodes == [node("data-1", 2)]
    assert leases.leave(node("data-1", 2), 0.0, 1.2)
    assert leases.nodes == []
