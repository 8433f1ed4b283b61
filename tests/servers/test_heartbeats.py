"""The last heartbeat of each server: what it holds, and whether it may leave."""

from __future__ import annotations

from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.meta_messages import Heartbeat, Stopping, View
from slotreeve_servers.meta.heartbeats import LastHeartbeats

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


def test_a_slot_is_settled_on_a_server_that_reported_so_under_this_table() -> None:
    last = LastHeartbeats()
    last.take(heartbeat("data-1", 1))
    last.take(heartbeat("data-2", epoch=2))
    settled = last.copies(TABLE).settled
    assert settled("data-1", 0)
    assert not settled("data-1", 1)
    assert not settled("data-2", 0)
    last.clear()
    assert not last.copies(TABLE).settled("data-1", 0)


def test_a_slot_was_settled_a_moment_ago_where_the_server_says_so_under_this_table() -> None:
    last = LastHeartbeats()
    last.take(Heartbeat(node("data-1"), 0, 3, [0, 1], Stopping.NO, [1]))
    last.take(Heartbeat(node("data-2"), 0, 2, [0, 1], Stopping.NO, [1]))
    recently = last.copies(TABLE).recently_settled
    assert [recently("data-1", 0), recently("data-1", 1)] == [False, True]
    assert not recently("data-2", 1)
    assert not recently("data-3", 1)
    assert not last.copies(TABLE).settled("data-1", 1)


def test_what_a_server_reported_counts_until_it_reports_under_the_next_table() -> None:
    """A server that joins changes the table. Its report, that it holds nothing, came before that of the others, and
    the leader had just died."""
    old = SlotTable(3, (Slot(0, "data-1", 1, ("data-2",)), Slot(1, "data-1", 1, ("data-2", "data-3"))))
    new = SlotTable(4, (Slot(0, "data-1", 1, ("data-2", "data-3")), Slot(1, "data-2", 4, ("data-1", "data-3"))))
    last = LastHeartbeats()
    last.take(heartbeat("data-1"))
    last.take(Heartbeat(node("data-2"), 0, 3, [0, 1], Stopping.NO, [0]))
    last.take(heartbeat("data-3", 1))
    last.table_changed(old, new)

    def known(table: SlotTable) -> list[tuple[str, int]]:
        recently = last.copies(table).recently_settled
        return [(name, slot) for name in ("data-1", "data-2", "data-3") for slot in (0, 1) if recently(name, slot)]

    assert known(new) == [("data-1", 1), ("data-2", 0)]
    assert not last.copies(new).settled("data-1", 1), "nothing is balanced or handed over on such a report"
    last.table_changed(new, SlotTable(5, new.slots))
    assert known(SlotTable(5, new.slots)) == [("data-1", 1), ("data-2", 0)]
    last.take(heartbeat("data-2", 0, 1, epoch=5))
    assert known(SlotTable(5, new.slots)) == [("data-1", 1)]


def test_a_new_process_of_a_server_and_one_that_left_hold_nothing_of_what_was_reported_before() -> None:
    old = SlotTable(3, (Slot(0, "data-1", 1, ("data-2", "data-3", "data-4")),))
    last = LastHeartbeats()
    for name in ("data-2", "data-3", "data-4"):
        last.take(heartbeat(name))
    last.table_changed(old, SlotTable(4, old.slots))
    last.take(Heartbeat(Node("data-2", Role.DATA, "data-2:1", "data-2@2"), 0, 0, [], Stopping.NO))
    last.forget("data-3")
    recently = last.copies(SlotTable(4, old.slots)).recently_settled
    assert [recently(name, 0) for name in ("data-2", "data-3", "data-4")] == [False, False, True]
    last.clear()
    assert not last.copies(SlotTable(4, old.slots)).recently_settled("data-4", 0)


def test_leaving_are_those_that_stop_and_those_that_are_banned() -> None:
    last = LastHeartbeats()
    last.take(heartbeat("data-1", stopping=Stopping.FOR_GOOD))
    last.take(heartbeat("data-2", stopping=Stopping.FOR_A_RESTART))
    last.take(heartbeat("data-3"))
    leaving = last.leaving(frozenset({"data-4"}))
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
    assert last.may_leave(beat, view(TABLE, "data-1", "data-2"), frozenset({"data-2"}), False)


def test_a_server_has_reported_once_it_did_under_a_table_of_this_leader_and_until_its_process_ends() -> None:
    last, newer = LastHeartbeats(), SlotTable(4, TABLE.slots)
    last.take(heartbeat("data-1"))
    last.take(heartbeat("data-2", epoch=2))
    assert last.reported(TABLE) == {"data-1"}
    last.table_changed(TABLE, newer)
    last.take(heartbeat("data-3", epoch=4))
    assert last.reported(newer) == {"data-1", "data-3"}
    last.take(Heartbeat(Node("data-1", Role.DATA, "data-1:1", "data-1@2"), 0, 0, []))
    assert last.reported(newer) == {"data-3"}
    last.clear()
    assert last.reported(newer) == set()
