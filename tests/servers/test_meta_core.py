"""The core of a meta server: members come, keep their leases, and go; the table follows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from slotreeve.errors import ModelError, NotLeader
from slotreeve.invariants import check_table
from slotreeve.model.nodes import Role, Server
from slotreeve.model.slots import Limits, SlotTable
from slotreeve.ports import Leadership
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.options import DefaultAssignerOptions
from slotreeve_machines.beside import Work, Worked
from slotreeve_protocol.general_messages import Done, Failed
from slotreeve_protocol.meta_messages import (
    GetMembers,
    Heartbeat,
    LeaderIs,
    LeaseGranted,
    Leave,
    Members,
    SlotCopies,
    Stopping,
    View,
)
from slotreeve_servers.meta.arranging.arranger import Arranger
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.settings import Settings

from tests.servers.meta_scene import FACTS, TOOL, Scene
from tests.servers.recording_outbox import deliver


def test_servers_that_join_become_members_and_share_the_slots() -> None:
    view = Scene().cluster("data-1", "data-2", "session-1")
    assert [node.name for node in view.data] == ["data-1", "data-2"]
    assert [node.name for node in view.sessions] == ["session-1"]
    assert {slot.leader for slot in view.table.slots} == {"data-1", "data-2"}
    assert all(len(slot.followers) == 1 for slot in view.table.slots)
    assert view.facts == FACTS


def test_the_first_data_server_waits_for_company_before_it_gets_every_slot() -> None:
    scene = Scene()
    scene.connect("data-1")
    scene.heartbeat("data-1")
    (view,) = scene.commit_all()
    assert view.table.slots == ()
    scene.outbox.advance(0.3)
    assert scene.commit_all()[-1].table.slots != ()


def test_a_second_process_under_a_name_is_refused_while_the_first_one_lives(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    names = ("data-1", "data-2", "session-1")
    before = scene.cluster(*names)
    first = scene.peers["data-1"]
    second = scene.connect("data-1", life=2)
    for _ in range(20):
        message = Heartbeat(scene.node("data-1", 2), 0, 0, [])
        reply = deliver(scene.outbox, scene.core.handlers, second, message)
        assert isinstance(reply, Failed)
        assert "the name 'data-1' is taken by process data-1@1 at data-1:1, which lives" in reply.reason
        scene.peers["data-1"] = first
        scene.settle(names, 1.0)
    assert scene.core.view.read() == before
    assert scene.core.counters()["names_refused"] == 1
    alarms = [line for line in caplog.messages if line.startswith("ALARM")]
    assert len(alarms) == 1
    assert "data data-1@2 is refused" in alarms[0]


def test_each_of_several_processes_under_a_name_is_one_alarm() -> None:
    scene = Scene()
    names = ("data-1", "data-2", "session-1")
    scene.cluster(*names)
    first = scene.peers["data-1"]
    others = {life: scene.connect("data-1", life=life) for life in (2, 3)}
    for _ in range(12):
        for life, peer in others.items():
            deliver(scene.outbox, scene.core.handlers, peer, Heartbeat(scene.node("data-1", life), 0, 0, []))
        scene.peers["data-1"] = first
        scene.settle(names, 1.0)
    assert scene.core.counters()["names_refused"] == 2


def test_a_heartbeat_of_a_dead_process_that_arrives_once_its_successor_has_the_name_is_no_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    names = ("data-1", "data-2", "session-1")
    scene.cluster(*names)
    first, dead = scene.peers["data-1"], scene.connect("data-1", life=2)
    scene.core.closed(first, "its process was killed")
    scene.connect("data-1", life=3)
    scene.outbox.advance(2.0)
    assert isinstance(scene.heartbeat("data-1", life=3), LeaseGranted)
    late = deliver(scene.outbox, scene.core.handlers, dead, Heartbeat(scene.node("data-1", 2), 0, 0, []))
    assert isinstance(late, Failed)
    for _ in range(3):
        scene.outbox.advance(1.0)
        scene.heartbeat("data-1", life=3)
    assert scene.core.counters()["names_refused"] == 0
    assert [line for line in caplog.messages if line.startswith("ALARM")] == []


def test_a_process_that_was_started_again_is_no_alarm_where_it_is_faster_than_the_news_of_its_predecessors_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    names = ("data-1", "data-2", "session-1")
    scene.cluster(*names)
    first = scene.peers["data-1"]
    second = scene.connect("data-1", life=2)
    refused = deliver(scene.outbox, scene.core.handlers, second, Heartbeat(scene.node("data-1", 2), 0, 0, []))
    assert isinstance(refused, Failed)
    scene.outbox.advance(0.1)
    late = Heartbeat(scene.node("data-1"), 0, scene.core.view.read().table.epoch, [])
    assert isinstance(deliver(scene.outbox, scene.core.handlers, first, late), LeaseGranted)
    scene.core.closed(first, "its process was killed")
    assert isinstance(scene.heartbeat("data-1", life=2), LeaseGranted)
    scene.commit_all()
    assert scene.node("data-1", 2) in scene.core.view.read().data
    assert scene.core.counters()["names_refused"] == 0
    assert [line for line in caplog.messages if line.startswith("ALARM")] == []


@pytest.mark.parametrize("how", ["its connection ends", "its lease is over", "it leaves for a restart"])
def test_a_process_takes_the_name_of_one_that_is_gone(how: str) -> None:
    scene = Scene()
    names = ("data-1", "data-2", "session-1")
    scene.cluster(*names)
    first = scene.peers["data-1"]
    match how:
        case "its connection ends":
            scene.core.closed(first, "gone")
        case "its lease is over":
            scene.settle(names[1:], 10.0)
        case _:
            deliver(scene.outbox, scene.core.handlers, first, Leave(scene.node("data-1"), "restart", 5.0))
    scene.connect("data-1", life=2)
    assert isinstance(scene.heartbeat("data-1", life=2), LeaseGranted)
    scene.commit_all()
    assert scene.node("data-1", 2) in scene.core.view.read().data


def test_a_committed_view_is_sent_to_every_member_and_only_to_members() -> None:
    scene = Scene()
    scene.core.opened(TOOL)
    scene.connect("session-1")
    scene.heartbeat("session-1")
    scene.commit_all()
    assert len(scene.outbox.messages(View, scene.peers["session-1"])) == 1
    assert scene.outbox.messages(View, TOOL) == []


def test_while_a_view_is_being_committed_no_other_one_is_begun() -> None:
    scene = Scene()
    scene.connect("session-1")
    scene.heartbeat("session-1")
    scene.connect("session-2")
    scene.heartbeat("session-2")
    scene.outbox.advance(30.0)
    assert len([effect for effect in scene.outbox.effects if effect.kind == "commit"]) == 1
    first, *_ = scene.commit_all()
    assert [node.name for node in first.sessions] == ["session-1"]


def test_a_view_that_was_not_committed_is_tried_again_and_was_not_published() -> None:
    scene = Scene()
    scene.connect("session-1")
    scene.heartbeat("session-1")
    (commit,) = scene.outbox.take("commit")
    assert isinstance(commit.what, View)
    scene.core.not_committed(commit.what, NotLeader("meta-2 leads"))
    assert scene.outbox.messages(View) == []
    scene.outbox.advance(1.0)
    assert [node.name for node in scene.commit_all()[0].sessions] == ["session-1"]


def test_a_server_whose_lease_ends_leaves_and_its_follower_leads() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2")
    scene.core.closed(scene.peers["data-1"], "killed")
    scene.settle(("data-2",))
    after = scene.core.view.read()
    assert [node.name for node in after.data] == ["data-2"]
    assert {slot.leader for slot in after.table.slots} == {"data-2"}
    for old, new in zip(before.table.slots, after.table.slots, strict=True):
        assert (new.leader_epoch > old.leader_epoch) == (old.leader != "data-2")


def test_of_two_that_are_gone_the_slots_with_a_live_follower_are_led_at_once_and_the_others_once_nobody_acts() -> None:
    scene = Scene()
    names = ("data-1", "data-2", "data-3")
    before = scene.cluster(*names)
    apart = {slot.id for slot in before.table.slots if "data-3" not in slot.holders}
    assert apart, "data-1 and data-2 share a slot"
    for name in ("data-1", "data-2"):
        scene.core.closed(scene.peers[name], "killed")
    scene.settle(("data-3",), seconds=1.0)
    meanwhile = scene.core.view.read()
    assert {*meanwhile.acting, "data-3"} == {node.name for node in meanwhile.data}
    assert [node.name for node in meanwhile.live_data] == ["data-3"]
    for old, new in zip(before.table.slots, meanwhile.table.slots, strict=True):
        assert new.leader == (old.leader if old.id in apart else "data-3")
        assert old.id not in apart or new.leader_epoch == old.leader_epoch
    check_table(meanwhile.table, [scene.node("data-3").as_server()], 2, is_committed=True, acting=meanwhile.acting)
    scene.settle(("data-3",), seconds=4.0)
    after = scene.core.view.read()
    assert (after.acting, {slot.leader for slot in after.table.slots}) == ([], {"data-3"})


def test_the_view_names_those_without_a_lease_from_when_it_ends_to_when_they_have_one_again() -> None:
    scene = Scene(replicas=1)
    before = scene.cluster("data-1", "data-2")
    scene.core.closed(scene.peers["data-1"], "lost")
    scene.settle(("data-2",), seconds=1.0)
    acts = scene.core.view.read()
    assert (acts.acting, [node.name for node in acts.data]) == (["data-1"], ["data-1", "data-2"])
    assert [slot.leader for slot in acts.table.slots] == [slot.leader for slot in before.table.slots]
    scene.connect("data-1")
    scene.heartbeat("data-1")
    scene.commit_all()
    again = scene.core.view.read()
    assert (again.acting, again.away) == ([], [])
    scene.settle(("data-1", "data-2"))
    leave = Leave(scene.node("data-2"), "restart", 30.0)
    deliver(scene.outbox, scene.core.handlers, scene.peers["data-2"], leave)
    scene.settle(("data-1",), seconds=1.0)
    away = scene.core.view.read()
    assert (away.away, [node.name for node in away.data]) == (["data-2"], ["data-1", "data-2"])
    assert {slot.leader for slot in away.table.slots} == {"data-1"}
    check_table(away.table, [node.as_server() for node in away.live_data], 1, is_committed=True)


def test_where_all_data_servers_are_silent_the_table_stays_and_the_view_says_so() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2", "session-1")
    for name in ("data-1", "data-2"):
        scene.core.closed(scene.peers[name], "lost")
    scene.settle(("session-1",), seconds=1.0)
    view = scene.core.view.read()
    assert (view.acting, view.table, view.live_data) == (["data-1", "data-2"], before.table, [])


def test_a_grant_brings_the_view_to_who_has_an_older_one_and_to_nobody_else() -> None:
    scene = Scene()
    scene.cluster("data-1", "session-1")
    view = scene.core.view.read()
    assert view.revision > 1
    for revision, brought in ((view.revision - 1, view), (view.revision, None), (view.revision + 1, None)):
        reply = scene.heartbeat("data-1", has=(revision, view.table.epoch))
        assert isinstance(reply, LeaseGranted)
        assert reply.view == brought


def test_each_grant_says_how_often_heartbeats_are_sent() -> None:
    scene = Scene()
    scene.connect("data-1")
    reply = scene.heartbeat("data-1")
    assert isinstance(reply, LeaseGranted)
    assert reply.heartbeat_seconds == Settings().meta.heartbeat_seconds


def test_a_table_is_not_protected_for_one_that_leaves_because_others_are_silent_for_a_moment() -> None:
    scene = Scene(replicas=1)
    scene.core._arranger.protect_below = 2
    scene.cluster("data-1", "data-2", "data-3")
    for name in ("data-1", "data-2"):
        scene.core.closed(scene.peers[name], "lost")
    scene.outbox.advance(0.35)
    scene.commit_all()
    reply = scene.heartbeat("data-3", stopping=Stopping.FOR_GOOD)
    assert len(scene.core.view.read().acting) == 2
    assert scene.core.counters()["protected"] == 1
    assert isinstance(reply, LeaseGranted)
    assert not reply.may_leave


def test_who_leads_alone_acts_where_its_follower_was_started_again() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2", "session-1")
    for name in ("data-1", "data-2", "session-1"):
        scene.heartbeat(name)
    scene.core.closed(scene.peers["data-1"], "lost")
    scene.outbox.advance(0.25)
    scene.core.closed(scene.peers["data-2"], "killed")
    scene.commit_all()
    scene.outbox.advance(0.04)
    scene.connect("data-2", life=2)
    scene.outbox.time += 0.02  # the look at its first heartbeat comes as the lease of data-1 ends
    scene.heartbeat("data-2", life=2)
    scene.outbox.end_turn()
    scene.commit_all()
    view = scene.core.view.read()
    assert view.acting == ["data-1"]
    assert [s.leader for s in view.table.slots if s.leader == "data-1"]
    assert scene.core.counters()["slots_led_unclean"] == sum(slot.leader == "data-2" for slot in view.table.slots)


def test_nobody_leaves_with_its_slots_because_another_one_is_silent_for_a_moment() -> None:
    scene = Scene(replicas=1)
    scene.cluster("data-1", "data-2", "session-1")
    scene.core.closed(scene.peers["data-1"], "lost")
    scene.outbox.advance(0.35)
    for _ in range(3):
        reply = scene.heartbeat("data-2", stopping=Stopping.FOR_GOOD)
        scene.commit_all()
        assert isinstance(reply, LeaseGranted)
        assert not reply.may_leave
    assert scene.core.view.read().acting == ["data-1"]


def test_one_that_restarts_waits_for_another_one_that_is_away_and_shall_have_its_slots() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2")
    deliver(scene.outbox, scene.core.handlers, scene.peers["data-2"], Leave(scene.node("data-2"), "restart", 30.0))
    scene.core.closed(scene.peers["data-2"], "stopped")
    scene.settle(("data-1",), seconds=1.0)
    assert {slot.holders for slot in scene.core.view.read().table.slots} == {("data-1",)}
    reply = scene.heartbeat("data-1", stopping=Stopping.FOR_A_RESTART)
    assert isinstance(reply, LeaseGranted)
    assert not reply.may_leave
    scene.connect("data-2", life=2)
    for _ in range(6):
        scene.heartbeat("data-2", life=2)
        reply = scene.heartbeat("data-1", stopping=Stopping.FOR_A_RESTART)
        scene.commit_all()
    assert isinstance(reply, LeaseGranted)
    assert reply.may_leave
    assert {slot.leader for slot in scene.core.view.read().table.slots} == {"data-2"}


def test_the_late_end_of_an_older_connection_changes_nothing_while_the_process_has_another_one() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2")
    older = scene.peers["data-1"]
    scene.connect("data-1")
    scene.core.closed(older, "connection lost")
    scene.outbox.advance(0.9)
    scene.heartbeat("data-1")
    scene.heartbeat("data-2")
    assert scene.commit_all() == []
    assert scene.core.view.read() == before


def test_a_server_that_connects_again_has_a_short_time_for_its_heartbeat() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2")
    scene.core.closed(scene.peers["data-1"], "connection lost")
    scene.outbox.advance(0.2)
    scene.connect("data-1")
    scene.outbox.advance(0.9)
    scene.heartbeat("data-1")
    scene.heartbeat("data-2")
    assert scene.commit_all() == []
    assert scene.core.view.read() == before


def test_the_time_in_which_the_leader_was_frozen_ends_no_lease() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2")
    scene.outbox.time += 60.0
    scene.outbox.unattended += 59.7
    scene.outbox.advance(1.0)
    assert scene.commit_all() == []
    committed: list[View] = []
    for _ in range(4):
        scene.heartbeat("data-2")
        scene.outbox.advance(1.0)
        committed += scene.commit_all()
    after = committed[0]
    assert ([node.name for node in before.data], [node.name for node in after.data]) == (
        ["data-1", "data-2"],
        ["data-2"],
    )


def test_a_leader_that_hears_no_member_keeps_the_view_although_they_are_connected() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2")
    scene.outbox.advance(60.0)
    assert scene.commit_all() == []
    scene.heartbeat("data-1")
    scene.outbox.advance(1.5)
    scene.heartbeat("data-2")
    assert scene.commit_all() == []
    assert scene.core.view.read() == before


@pytest.mark.parametrize("connected", [True, False])
def test_a_leader_that_no_member_reaches_resigns_again_and_again_at_growing_intervals(connected: bool) -> None:
    scene = Scene()
    scene.cluster("data-1", "session-1")
    for name in ("data-1", "session-1") if not connected else ():
        scene.core.closed(scene.peers[name], "cut off")
    assert seconds_of_resignations(scene, 100) == [10, 20, 40, 80]
    scene.lead(2)  # elected again: the silence is counted from here on
    assert seconds_of_resignations(scene, 200) == [160]
    if connected:
        scene.heartbeat("data-1")
        assert seconds_of_resignations(scene, 15) == [10]


def seconds_of_resignations(scene: Scene, seconds: int) -> list[int]:
    """Full tens of seconds, because the leader looks only once a second."""
    return [second - second % 10 for second in range(1, seconds) if resigns_within(scene, 1.0)]


def resigns_within(scene: Scene, seconds: float) -> bool:
    scene.outbox.advance(seconds)
    scene.commit_all()
    return bool(scene.outbox.take("resign"))


def test_a_leader_without_members_or_without_another_meta_server_does_not_resign() -> None:
    scene = Scene()
    assert not resigns_within(scene, 1000.0)
    alone = Scene(meta=("meta-1",))
    alone.cluster("data-1")
    assert not resigns_within(alone, 1000.0)


def test_a_leader_that_was_frozen_does_not_resign_for_that() -> None:
    scene = Scene()
    scene.cluster("data-1")
    scene.outbox.unattended += 59.7
    assert not resigns_within(scene, 60.0)


def test_a_leader_without_any_connected_member_keeps_the_view() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2")
    for name in ("data-1", "data-2"):
        scene.core.closed(scene.peers[name], "cut off")
    scene.outbox.advance(60.0)
    assert scene.commit_all() == []
    assert scene.core.view.read() == before


def test_a_restarted_server_gets_its_slots_under_another_leader_epoch() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2")
    scene.core.closed(scene.peers["data-1"], "killed")
    scene.connect("data-1", life=2)
    scene.heartbeat("data-1", life=2)
    scene.heartbeat("data-2")
    scene.commit_all()
    after = scene.core.view.read()
    for old, new in zip(before.table.slots, after.table.slots, strict=True):
        if old.leader == "data-1":
            assert new.leader_epoch > old.leader_epoch


def test_a_stopping_data_server_may_leave_once_it_holds_nothing() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2", "data-3")
    reply = scene.heartbeat("data-1", stopping=Stopping.FOR_GOOD)
    assert isinstance(reply, LeaseGranted)
    assert not reply.may_leave
    for _ in range(20):
        scene.outbox.advance(0.25)
        scene.commit_all()
        for name in ("data-2", "data-3"):
            scene.heartbeat(name)
        reply = scene.heartbeat("data-1", stopping=Stopping.FOR_GOOD)
        scene.commit_all()
    assert isinstance(reply, LeaseGranted)
    assert reply.may_leave
    assert all("data-1" not in (s.leader, *s.followers) for s in scene.core.view.read().table.slots)


def test_a_data_server_that_leaves_for_a_restart_keeps_its_place_for_that_long() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2")
    leave = Leave(scene.node("data-1"), "restart", 5.0)
    assert deliver(scene.outbox, scene.core.handlers, scene.peers["data-1"], leave) == Done()
    scene.settle(("data-2",), 4.0)
    assert len(scene.core.view.read().data) == 2
    scene.settle(("data-2",), 4.0)
    assert [node.name for node in scene.core.view.read().data] == ["data-2"]


def test_a_session_server_that_leaves_for_a_restart_has_no_place_and_is_missed_until_it_is_back() -> None:
    scene = Scene()
    scene.cluster("session-1", "session-2")
    for name, seconds in (("session-1", 5.0), ("session-2", 0.0)):
        deliver(scene.outbox, scene.core.handlers, scene.peers[name], Leave(scene.node(name), "stopped", seconds))
    scene.commit_all()
    found = members_of(scene)
    assert found.members == []
    assert [(left.node.name, left.said_so, left.comes_back) for left in found.left] == [
        ("session-1", True, True),
        ("session-2", True, False),
    ]


def test_a_server_that_leaves_for_good_is_no_member_at_once() -> None:
    scene = Scene()
    scene.cluster("session-1", "session-2")
    scene.outbox.effects.clear()
    deliver(scene.outbox, scene.core.handlers, scene.peers["session-1"], Leave(scene.node("session-1"), "stopped"))
    assert [effect.what for effect in scene.outbox.effects if effect.kind == "notify"] == ["slotreeve_node_left"]
    scene.commit_all()
    assert [node.name for node in scene.core.view.read().sessions] == ["session-2"]


@pytest.mark.parametrize(
    "stranger",
    [
        Peer("data-1", Role.DATA, "data-1@2"),
        Peer("data-2", Role.DATA, "data-1@1"),
        Peer("data-1", Role.SESSION, "data-1@1"),
    ],
    ids=["another process", "another name", "another role"],
)
def test_no_process_renews_or_ends_the_lease_of_another_one(stranger: Peer) -> None:
    scene = Scene()
    before = scene.cluster("data-1", "session-1")
    node = scene.node("data-1")
    for message in (Heartbeat(node, 0, 0, []), Leave(node, "stopped")):
        with pytest.raises(ModelError, match="in the name of data data-1"):
            deliver(scene.outbox, scene.core.handlers, stranger, message)
    assert scene.commit_all() == []
    assert scene.core.view.read() == before


def test_a_dead_leader_is_replaced_by_who_is_in_sync_and_not_by_one_that_was_just_started() -> None:
    scene = Scene(replicas=3)
    scene.cluster("data-1", "data-2", "data-3")
    scene.core.closed(scene.peers["data-1"], "killed")
    scene.outbox.advance(2.0)
    scene.commit_all()
    scene.connect("data-1", 2)
    scene.heartbeat("data-1", 2, unsettled=(0, 1, 2, 3))
    before = scene.commit_all()[-1].table
    lost = [slot.id for slot in before.slots if slot.leader == "data-2"]
    assert lost
    assert all(
        (slot.followers, slot.learners) == (("data-3",), ("data-1",)) for slot in map(before.slots.__getitem__, lost)
    )
    scene.core.closed(scene.peers["data-2"], "killed")
    scene.outbox.advance(2.0)
    after = scene.commit_all()[-1].table
    assert {after.slots[number].leader for number in lost} == {"data-3"}
    assert scene.core.counters()["slots_led_unclean"] == 0


def test_a_slot_that_no_server_in_sync_is_left_of_is_led_by_another_one_with_an_alarm_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene(replicas=2)
    before = scene.cluster("data-1", "data-2", "data-3").table
    (lost, *_) = [slot.id for slot in before.slots if set(slot.in_sync) == {"data-1", "data-2"}]
    for name in ("data-1", "data-2"):
        scene.core.closed(scene.peers[name], "killed")
    scene.settle(("data-3",), 3.0)
    assert scene.core.view.read().table.slots[lost].leader != "data-3", "its leader may acknowledge yet"
    scene.settle(("data-3",), 3.0)
    after = scene.core.view.read().table
    assert after.slots[lost].leader == "data-3"
    assert "no server in sync lived" in caplog.text
    named = [record.getMessage() for record in caplog.records if "no server in sync lived" in record.getMessage()]
    assert len(named) == 1, "it is said once"
    assert f"of {scene.core.counters()['slots_led_unclean']} slots" in named[0]


def test_the_only_holder_of_slots_that_is_back_in_time_leads_on_and_a_new_process_does_not() -> None:
    for is_new_process in (False, True):
        scene = Scene(replicas=1)
        before = scene.cluster("data-1", "data-2").table
        scene.core.closed(scene.peers["data-1"], "cut off")
        scene.settle(("data-2",), 1.0)
        assert [row.leader for row in scene.core.view.read().table.slots] == [row.leader for row in before.slots]
        life = 2 if is_new_process else 1
        scene.connect("data-1", life)
        scene.heartbeat("data-1", life)
        scene.commit_all()
        back = scene.core.view.read()
        assert [node.process_id for node in back.data] == [f"data-1@{life}", "data-2@1"]
        kept = [row.leader_epoch == old.leader_epoch for row, old in zip(back.table.slots, before.slots, strict=True)]
        led_by_it = [row.leader == "data-1" for row in before.slots]
        assert not is_new_process or kept == [not led for led in led_by_it]
        assert scene.core.counters()["slots_led_unclean"] == is_new_process * sum(led_by_it)


def test_of_two_that_died_together_none_gets_the_slots_of_the_other() -> None:
    scene = Scene(replicas=1)
    before = scene.cluster("data-1", "data-2", "data-3").table
    scene.heartbeat("data-1")
    scene.outbox.advance(0.8)
    scene.heartbeat("data-2")
    scene.heartbeat("data-3")
    for name in ("data-1", "data-2"):
        scene.core.closed(scene.peers[name], "killed")
    scene.settle(("data-3",), 6.0)
    assert {row.leader for row in scene.core.view.read().table.slots} == {"data-3"}
    assert scene.core.counters()["slots_led_unclean"] == sum(row.leader != "data-3" for row in before.slots)


def test_a_learner_follows_once_its_leader_has_called_it_ready_under_the_present_table() -> None:
    scene = Scene(replicas=2)
    scene.cluster("data-1")
    scene.connect("data-2")
    scene.heartbeat("data-2")
    table = scene.commit_all()[-1].table
    assert {(slot.leader, slot.followers, slot.learners) for slot in table.slots} == {("data-1", (), ("data-2",))}
    scene.heartbeat("data-1", unready=("data-2",))
    assert scene.commit_all() == []
    scene.heartbeat("data-1", has=(0, table.epoch - 1))
    assert scene.commit_all() == [], "said under an older table"
    scene.heartbeat("data-1")
    table = scene.commit_all()[0].table
    assert {(slot.leader, slot.followers, slot.learners) for slot in table.slots} == {("data-1", ("data-2",), ())}


def test_a_learner_that_was_started_again_since_its_leader_called_it_ready_is_not_promoted() -> None:
    scene = Scene(replicas=2)
    scene.cluster("data-1")
    scene.connect("data-2")
    scene.heartbeat("data-2")
    scene.commit_all()
    scene.connect("session-1")
    scene.heartbeat("session-1")  # a commit is under way from here on
    scene.outbox.end_turn()
    scene.heartbeat("data-1")
    scene.core.closed(scene.peers["data-2"], "killed")
    scene.connect("data-2", 2)
    scene.heartbeat("data-2", 2)
    rows = [slot for view in scene.commit_all() for slot in view.table.slots]
    assert {(slot.leader, slot.followers, slot.learners) for slot in rows} == {("data-1", (), ("data-2",))}
    scene.heartbeat("data-1")
    table = scene.commit_all()[0].table
    assert {slot.followers for slot in table.slots} == {("data-2",)}, "the new process is ready, too"


def test_a_follower_that_its_leader_lost_learns_again_and_a_former_leader_is_not_listened_to() -> None:
    scene = Scene(replicas=2)
    table = scene.cluster("data-1", "data-2").table
    (slot, *_) = [slot for slot in table.slots if slot.leader == "data-1"]

    def loses(leader: str, leader_epoch: int) -> None:
        other = "data-2" if leader == "data-1" else "data-1"
        copies = [SlotCopies(slot.id, leader_epoch, [], [other])]
        epoch = scene.core.view.read().table.epoch
        message = Heartbeat(scene.node(leader), 0, epoch, [], Stopping.NO, copies)
        assert isinstance(deliver(scene.outbox, scene.core.handlers, scene.peers[leader], message), LeaseGranted)

    loses("data-2", slot.leader_epoch)
    assert scene.commit_all() == []
    loses("data-1", slot.leader_epoch - 1)
    assert scene.commit_all() == []
    loses("data-1", slot.leader_epoch)
    scene.outbox.advance(0.1)
    row = scene.commit_all()[0].table.slots[slot.id]
    assert (row.leader, row.leader_epoch, row.followers, row.learners) == ("data-1", slot.leader_epoch, (), ("data-2",))


class Asked:
    """A balancer that counts, and has nothing to do."""

    def __init__(self) -> None:
        self.times = 0

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> None:
        self.times += 1


def test_nothing_is_planned_again_until_something_has_changed() -> None:
    scene, asked = Scene(), Asked()
    names = ("data-1", "data-2", "session-1")
    scene.cluster(*names)
    assigner = DefaultAssigner(DefaultAssignerOptions())
    scene.core._arranger = Arranger(4, 2, assigner, asked, 0)
    scene.heartbeat("data-1", unsettled=(0,))
    scene.settle(names, 5.0)
    assert asked.times == 1
    scene.settle(names, 60.0)
    assert asked.times == 1
    scene.heartbeat("data-1", unsettled=(0,))
    scene.settle(names, 5.0)
    assert asked.times == 2


def test_a_plan_for_a_view_that_is_the_present_one_no_more_is_dropped_and_made_again() -> None:
    scene = Scene()
    waiting: list[Callable[[], None]] = []

    def compute(work: Work, worked: Worked) -> None:
        waiting.append(lambda: worked(work(), None))

    scene.outbox.compute = compute  # type: ignore[method-assign]  # plans take until the test ends them
    scene.connect("session-1")
    scene.heartbeat("session-1")
    assert len(waiting) == 1
    scene.connect("session-2")
    scene.heartbeat("session-2")
    scene.outbox.advance(5.0)
    assert len(waiting) == 1, "one plan at a time"
    scene.report(Leadership("meta-2", 2, False, 0.0, "another leads"))
    waiting.pop()()
    assert scene.commit_all() == []
    scene.lead(3)
    for name in ("session-1", "session-2"):
        scene.heartbeat(name)
    while waiting:
        waiting.pop()()
        scene.outbox.end_turn()
    (view,) = scene.commit_all()
    assert (view.term, [node.name for node in view.sessions]) == (3, ["session-1", "session-2"])


def test_a_server_that_is_silent_while_a_plan_is_made_has_left_when_its_lease_ends() -> None:
    scene = Scene()
    names = ("data-1", "data-2", "session-1")
    scene.cluster(*names)
    scene.outbox.compute = lambda work, worked: None  # type: ignore[method-assign]  # a plan that never ends
    scene.connect("session-2")
    scene.heartbeat("session-2")
    scene.outbox.take("notify")
    scene.settle(("data-1", "session-1", "session-2"), 10.0)
    assert "slotreeve_node_left" in [effect.what for effect in scene.outbox.take("notify")]


def members_of(scene: Scene) -> Members:
    found = deliver(scene.outbox, scene.core.handlers, TOOL, GetMembers())
    assert isinstance(found, Members)
    return found


def test_the_leader_tells_how_each_member_is() -> None:
    scene = Scene()
    view = scene.cluster("data-1", "data-2", "session-1")
    scene.heartbeat("data-2", stopping=Stopping.FOR_GOOD, unsettled=(1, 3))
    scene.outbox.advance(0.25)
    scene.heartbeat("data-1")
    scene.core.closed(scene.peers["session-1"], "its process was killed")
    found = members_of(scene)
    assert found.view == view
    assert {
        member.node.name: (round(member.heard_seconds, 2), member.doubt, member.stopping, member.unsettled)
        for member in found.members
    } == {
        "data-1": (0.0, "", Stopping.NO, []),
        "data-2": (0.25, "", Stopping.FOR_GOOD, [1, 3]),
        "session-1": (0.25, "connection lost", Stopping.NO, []),
    }
    assert found.left == []


def test_the_leader_tells_why_the_table_is_not_planned() -> None:
    scene = Scene()
    scene.cluster("data-1", "session-1")
    assert members_of(scene).plan_fault == ""
    scene.core._arranger._faults = {"assigner": "ValueError: no"}
    assert members_of(scene).plan_fault == "the assigner's plan is rejected: ValueError: no"


def test_whoever_has_the_view_is_not_sent_its_table_again() -> None:
    scene = Scene()
    view = scene.cluster("data-1", "session-1")

    def told(asked: GetMembers) -> Members:
        found = deliver(scene.outbox, scene.core.handlers, TOOL, asked)
        assert isinstance(found, Members)
        return found

    known = told(GetMembers(view.term, view.revision))
    assert (known.has_table, known.view.table.slots, known.view.data) == (False, (), view.data)
    for older in (GetMembers(view.term, view.revision - 1), GetMembers(view.term + 1, view.revision)):
        assert (told(older).has_table, told(older).view) == (True, view)


def test_the_leader_tells_who_has_left_when_and_why_and_a_new_leader_does_not_know() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2", "session-1")
    gone = Leave(scene.node("session-1"), "upgrade")
    assert isinstance(deliver(scene.outbox, scene.core.handlers, scene.peers["session-1"], gone), Done)
    scene.core.closed(scene.peers["data-2"], "its process was killed")
    scene.settle(("data-1",))
    found = members_of(scene)
    assert [(left.node.name, left.reason, left.said_so) for left in found.left] == [
        ("session-1", "upgrade", True),
        ("data-2", "connection lost", False),
    ]
    assert found.left[0].at_ms <= found.left[1].at_ms <= found.at_ms
    assert [member.node.name for member in found.members] == ["data-1"]
    scene.lead(2)
    assert members_of(scene).left == []


def test_a_meta_server_that_does_not_lead_names_the_leader_instead_of_the_members() -> None:
    scene = Scene(leads=False)
    assert isinstance(deliver(scene.outbox, scene.core.handlers, TOOL, GetMembers()), LeaderIs)
