"""Rules of copies and of ends hold in odd orders: newer tables meanwhile, several messages in one turn."""

from __future__ import annotations

from slotreeve.errors import RequestTimeout
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.options import DefaultAssignerOptions
from slotreeve_protocol.lease_messages import KeepLeases, SlotLeases
from slotreeve_protocol.meta_messages import Heartbeat, SlotCopies
from slotreeve_protocol.slot_messages import Answers, Confirm, Follow, Replicate, SlotDigests, SlotEpoch
from slotreeve_servers.data.endings.ending_rounds import GATHER_SECONDS
from slotreeve_servers.data.replication.in_sync import ABSENT_SECONDS
from slotreeve_servers.meta.arranging.arranger import Arranger, Leaving
from slotreeve_servers.meta.members.heartbeats import LastHeartbeats
from slotreeve_servers.node.outbox import Request

from tests.servers.endings_scene import EndingsScene
from tests.servers.recording_outbox import a_peer, deliver
from tests.servers.session_scene import LEADER
from tests.servers.session_scene import Scene as SessionRecords
from tests.servers.test_arranger import Arranging, even, servers
from tests.servers.test_endings import old_view
from tests.servers.test_in_sync import LEARNER, OTHER, Scene, ready
from tests.servers.test_lease_keeper import SESSION, Leader, terms


def test_newer_tables_do_not_set_back_the_time_after_which_a_follower_is_lost() -> None:
    scene = Scene(("data-3",), ())
    scene.keep([terms("a")])
    for epoch in (2, 3, 4, 5):
        scene.pass_time(0.8)
        scene.row(("data-3",), (), epoch)
    assert scene.reports() == [SlotCopies(0, 1, [], ["data-3"])]


def test_newer_tables_do_not_set_back_the_time_after_which_a_learner_is_absent() -> None:
    scene = Scene()
    for epoch in range(2, 8):
        scene.pass_time(ABSENT_SECONDS / 4)
        scene.row((), ("data-2",), epoch)
    assert [told.absent for told in scene.reports()] == [["data-2"]]


def test_a_follower_that_copies_for_long_is_lost() -> None:
    scene = Scene(("data-3",), ())
    scene.keep([terms("a")])
    scene.outbox.part_bytes = 0  # no answer is complete
    scene.follows(OTHER)
    assert OTHER in scene.core.slots.held[0].copying
    for _ in range(10):
        scene.pass_time(0.3)
        scene.keep([terms("b")])
    assert scene.reports() == [SlotCopies(0, 1, [], ["data-3"])]


def test_what_is_stored_in_the_turn_of_an_earlier_request_is_streamed_before_the_question() -> None:
    leader = Leader("data-2")
    follower = a_peer("data-2", Role.DATA)
    leader.core.opened(follower)
    deliver(leader.outbox, leader.core.handlers, follower, Follow([SlotDigests(0, 1, {})]))
    leader.outbox.take()
    keep = leader.core.handlers.later[KeepLeases]
    keep(SESSION, KeepLeases([SlotLeases(0, 1, [], {"s": ["x"]}, {})]), Request(SESSION, 1))
    keep(SESSION, KeepLeases([SlotLeases(0, 1, [terms("a")], {}, {})]), Request(SESSION, 2))
    leader.outbox.end_turn()
    told = [effect.what for effect in leader.outbox.effects if effect.peer is follower]
    assert [type(what) for what in told if isinstance(what, Replicate | Confirm)] == [Replicate, Confirm]


def test_a_lost_client_waits_for_a_current_view_also_in_a_round_with_one_that_has_left() -> None:
    scene = EndingsScene(clients=2)
    old_view(scene)
    scene.say(scene.records[0])
    scene.lose(scene.records[1])
    scene.outbox.advance(GATHER_SECONDS)
    while any(isinstance(r.message, Confirm) for r in scene.outbox.requests):
        scene.outbox.answer(Answers([]), kind=Confirm)
    scene.outbox.advance(0.5)
    assert scene.records[1].register_id in scene.left


def test_a_learner_is_asked_one_question_at_a_time() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    scene.core.in_sync.stream_begun(scene.core.slots.held[0])  # another slot's stream begins
    scene.outbox.end_turn()
    assert len(scene.asked()) == 1


def test_while_a_server_is_away_its_slots_do_not_go_round() -> None:
    judge = Arranger(4, 1, DefaultAssigner(DefaultAssignerOptions()), even())
    arranging = Arranging(judge, SlotTable(1, tuple(Slot(n, "a", 1, ()) for n in range(4))))
    away = Leaving(away=frozenset("a"))
    arranging.step(servers("a", "b", "c"), leaving=away)
    led = [slot.leader for slot in arranging.table.slots]
    for _ in range(5):
        arranging.step(servers("a", "b", "c"), leaving=away)
    assert [slot.leader for slot in arranging.table.slots] == led


def test_a_learner_that_is_lost_is_not_reported_as_ready() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    ready(scene)
    scene.keep([terms("a")])
    scene.outbox.answer(None, RequestTimeout("it is frozen"), kind=Confirm)
    assert scene.reports() == [SlotCopies(0, 1, [], ["data-2"])]


def test_the_one_with_the_newest_view_is_asked_first() -> None:
    heartbeats = LastHeartbeats()
    for name, revision in (("data-1", 5), ("data-2", 9)):
        heartbeats.take(Heartbeat(Node(name, Role.DATA, "x:1", f"{name}@1"), revision, 3, []))
    assert [node.name for node in heartbeats.having_newer(4)] == ["data-2", "data-1"]


def test_what_a_client_has_sent_and_is_not_read_is_behind_no_mark() -> None:
    scene = SessionRecords()
    scene.outbox.has_unread = True
    deliver(scene.outbox, scene.leaders.handlers, LEADER, Confirm([SlotEpoch(0, 1)]))
    scene.outbox.end_turn()
    assert scene.outbox.take("replied") == []
    scene.outbox.has_unread = False
    scene.outbox.end_turn()
    assert len(scene.outbox.take("replied")) == 1
