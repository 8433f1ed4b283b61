"""The last heartbeat of each server: what it holds, and whether it may leave."""

from __future__ import annotations

import pytest
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.meta_messages import Heartbeat, SlotCopies, Stopping, View
from slotreeve_servers.meta.arranging.copy_steps import CopyReport
from slotreeve_servers.meta.members.heartbeats import LastHeartbeats, Newest

TABLE = SlotTable(3, (Slot(0, "data-1", 1, ("data-2",)),))
NOBODY: frozenset[str] = frozenset()


def node(name: str) -> Node:
    role = Role.DATA if name.startswith("data") else Role.SESSION
    return Node(name, role, f"{name}:1", f"{name}@1")


def heartbeat(name: str, *unsettled: int, epoch: int = 3, stopping: Stopping = Stopping.NO) -> Heartbeat:
    return Heartbeat(node(name), 0, epoch, list(unsettled), stopping)


def view(table: SlotTable, *data: str) -> View:
    return View(1, 1, table, [node(name) for name in data], [])


def test_a_heartbeat_is_news_where_it_differs_in_what_the_arranger_waits_for() -> None:
    last = LastHeartbeats()
    assert last.take(heartbeat("data-1", 4))
    assert not last.take(heartbeat("data-1", 4))
    assert last.take(heartbeat("data-1"))
    assert last.take(heartbeat("data-1", epoch=4))
    assert last.take(heartbeat("data-1", epoch=4, stopping=Stopping.FOR_GOOD))
    last.forget("data-1")
    assert last.take(heartbeat("data-1", epoch=4, stopping=Stopping.FOR_GOOD))


def test_what_a_server_reports_counts_under_the_present_table() -> None:
    last = LastHeartbeats()
    last.take(heartbeat("data-1", 1))
    last.take(heartbeat("data-2", epoch=2))
    reports = last.reports(TABLE, ["data-1", "data-2", "data-3"])
    assert reports.unsettled == {"data-1": {1}}
    assert reports.silent == {"data-3"}
    assert not reports.are_settled(TABLE), "data-2 has not reported under this table"
    last.take(heartbeat("data-2"))
    assert last.reports(TABLE).are_settled(TABLE)
    last.take(heartbeat("data-2", 0))
    assert not last.reports(TABLE).are_settled(TABLE)
    last.clear()
    assert not last.reports(TABLE).unsettled


def test_a_leader_reports_of_its_copies_under_its_own_leader_epoch_and_nobody_else_does() -> None:
    last = LastHeartbeats()
    ready = SlotCopies(0, 1, ["data-3"], ["data-2"])

    def told(name: str, copies: SlotCopies, epoch: int = 3) -> dict[int, CopyReport]:
        last.take(Heartbeat(node(name), 0, epoch, [], Stopping.NO, [copies]))
        return dict(last.reports(TABLE).by_slot)

    assert told("data-2", ready) == {}, "it does not lead the slot"
    assert told("data-1", ready, epoch=2) == {}, "that was said under another table"
    assert told("data-1", SlotCopies(0, 2, ["data-3"], [])) == {}, "another leader epoch"
    assert told("data-1", SlotCopies(7, 1, ["data-3"], [])) == {}, "there is no such slot"
    assert told("data-1", ready) == {0: CopyReport(frozenset({"data-3"}), frozenset({"data-2"}))}


def test_leaving_are_those_that_stop_and_those_that_are_banned() -> None:
    last = LastHeartbeats()
    last.take(heartbeat("data-1", stopping=Stopping.FOR_GOOD))
    last.take(heartbeat("data-2", stopping=Stopping.FOR_A_RESTART))
    last.take(heartbeat("data-3"))
    leaving = last.leaving(frozenset({"data-4"}), ["data-1", "data-2", "data-3", "data-4"])
    assert leaving.for_good == {"data-1", "data-4"}
    assert leaving.for_a_restart == {"data-2"}


def test_a_data_server_may_leave_once_it_holds_nothing_or_leads_nothing_before_a_restart() -> None:
    last = LastHeartbeats()

    def may_leave(name: str, stopping: Stopping, *data: str) -> bool:
        beat = heartbeat(name, stopping=stopping)
        last.take(beat)
        return last.may_leave(beat, view(TABLE, *data), NOBODY, False)

    everybody = ("data-1", "data-2", "data-3")
    assert not may_leave("data-1", Stopping.NO, *everybody)
    assert not may_leave("data-1", Stopping.FOR_GOOD, *everybody)
    assert not may_leave("data-2", Stopping.FOR_GOOD, *everybody)
    assert may_leave("data-2", Stopping.FOR_A_RESTART, *everybody)
    assert may_leave("data-3", Stopping.FOR_GOOD, *everybody)
    assert may_leave("session-1", Stopping.FOR_GOOD, *everybody)


def test_a_data_server_may_leave_where_no_server_is_left_to_take_its_slots() -> None:
    last = LastHeartbeats()
    beat = heartbeat("data-1", stopping=Stopping.FOR_GOOD)
    last.take(beat)
    assert last.may_leave(beat, view(TABLE, "data-1"), NOBODY, False)
    assert last.may_leave(beat, view(TABLE, "data-1", "data-2"), NOBODY, True)

    stops_too = heartbeat("data-2", stopping=Stopping.FOR_GOOD)
    last.take(stops_too)
    assert last.may_leave(beat, view(TABLE, "data-1", "data-2"), NOBODY, False)


@pytest.mark.parametrize("how", [Stopping.FOR_GOOD, Stopping.FOR_A_RESTART])
def test_the_last_server_that_is_not_banned_leaves_once_a_banned_one_has_taken_over(how: Stopping) -> None:
    last, banned = LastHeartbeats(), frozenset({"data-2"})
    beat = heartbeat("data-1", stopping=how)
    last.take(beat)
    learning = SlotTable(3, (Slot(0, "data-1", 1, (), ("data-2",)),))
    taken_over = SlotTable(4, (Slot(0, "data-2", 4, ()),))
    assert banned.isdisjoint(last.leaving(banned, ["data-1", "data-2"]).for_good)
    assert last.leaving(banned, ["data-1", "data-2", "data-3"]).for_good >= banned
    assert not last.may_leave(beat, view(learning, "data-1", "data-2"), banned, False)
    assert last.may_leave(beat, view(taken_over, "data-1", "data-2"), banned, False)


def test_how_far_members_count_is_seen_in_each_number_by_itself() -> None:
    last, own = LastHeartbeats(), Newest("own", 7, 3, 2, 10)
    for equal in (Heartbeat(node("data-1"), 7, 3, [], term=2), Heartbeat(node("session-1"), 7, 2, [], config_total=10)):
        last.take(equal)
    assert last.above(own) is None
    last.take(Heartbeat(node("session-1"), 6, 3, [], config_total=11))
    assert last.above(own) is None, "configuration is counted anew in each era, and this view is an older one"
    last.take(Heartbeat(node("session-1"), 7, 3, [], config_total=11))
    assert last.above(own) == Newest("session-1", 7, 3, 2, 11)
    last.take(Heartbeat(node("data-1"), 5, 4, [], term=3))
    assert last.above(own) == Newest("session-1", 7, 4, 2, 11), "a late member has the term of its view"
    last.take(Heartbeat(node("data-1"), 7, 4, [], term=3))
    assert last.above(own) == Newest("session-1", 7, 4, 3, 11)
    last.take(Heartbeat(node("data-1"), 7, 3, [], term=1 << 53))
    last.take(Heartbeat(node("session-1"), 7, 3, [], config_total=1 << 60))
    assert last.above(own) is None, "no cluster counts so far"
