"""What a server knew of a former table, connection, view or leadership does not count any more."""

from __future__ import annotations

import asyncio
from collections import Counter

from slotreeve.errors import ConnectionLost
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Connection, Handler, Hello
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.options import DefaultAssignerOptions
from slotreeve_protocol.client_messages import ReplayEnded
from slotreeve_protocol.general_messages import Failed
from slotreeve_protocol.meta_messages import LeaseGranted, View
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Compared,
    Confirm,
    Follow,
    SlotDifference,
    SlotDigests,
)
from slotreeve_servers.data.endings.ending import LostRecord
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.data.replication.following import SlotFollowing
from slotreeve_servers.data.slots.slots import HeldSlots
from slotreeve_servers.meta.arranging.arranger import Arranger, Leaving
from slotreeve_servers.meta.members.heartbeats import Newest
from slotreeve_servers.meta.members.leases import Leases
from slotreeve_servers.meta.members.newest_view import NewestView
from slotreeve_servers.meta.settings import MetaSettings
from slotreeve_servers.node.links import Links, Target
from slotreeve_servers.session.records.writes import WEIGHT_PER_MESSAGE
from slotreeve_transport_memory.transport import MemoryTransport

from tests.servers.core_scenes import SessionScene
from tests.servers.core_scenes import record as session_record
from tests.servers.endings_scene import SESSION_1, SESSION_2, EndingsScene
from tests.servers.endings_scene import record as held_record
from tests.servers.node_scene import play
from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver
from tests.servers.test_arranger import even, reported, servers
from tests.servers.test_data_core import DataScene
from tests.servers.test_in_sync import LEARNER, OTHER, YES, Scene
from tests.servers.test_lease_keeper import terms
from tests.servers.test_links import LinkScene, maker
from tests.servers.test_membership import MemberScene
from tests.servers.test_writes import Scene as WriteScene
from tests.servers.test_writes import record as write_record


def members(sessions: SessionServers, *processes: str) -> None:
    sessions.view_changed([Node(process, Role.SESSION, "x:1", process) for process in processes])


def test_what_servers_were_given_under_a_former_leadership_does_not_count_after_a_silence() -> None:
    rules = MetaSettings(heartbeat_seconds=1.0, lease_seconds=6.0, lost_connection_seconds=0.5, unseen_seconds=2.0)
    data, session = Node("data-1", Role.DATA, "d:1", "data-1@1"), Node("session-1", Role.SESSION, "s:1", "session-1@1")
    other = Node("session-2", Role.SESSION, "s:2", "session-2@1")
    leases = Leases(rules)
    for node in (data, session, other):
        leases.renew(node, 0.0)
    leases.renew(session, 10.0)  # after a silence of ten seconds session-2 has a whole lease to be heard, once
    leases.adopt([data, session, other], {other.process_id: 0.0, session.process_id: 0.0}, 100.0)
    leases.renew(session, 110.0)  # the same under the next leadership, at another silence
    assert leases.next_in(110.0) is not None
    for second in range(111, 116):
        leases.renew(session, float(second))
        leases.renew(data, float(second))
    assert "session-2" in {node.name for node in leases.nodes}
    assert other not in {node for node, _ in leases.expire(115.5)}, "it has a whole lease from 110.0 on"
    assert other in {node for node, _ in leases.expire(116.0)}


def test_a_session_server_that_is_cut_off_from_the_meta_leader_is_asked_however_many_views_there_are() -> None:
    scene = EndingsScene()
    scene.put(Publisher("a-1", "s", 1, 1, SESSION_2.process_id, "", (b"x",)))
    scene.answers = False
    scene.view(SESSION_2)
    for _ in range(2):
        scene.view(SESSION_2)  # others have come and gone
    scene.lost_clients.reported(scene.slot, [Publisher("a-1", "s", 1, 1, SESSION_2.process_id, "", (b"x",))])
    scene.outbox.end_turn()
    scene.outbox.advance(0.02)
    asked = {request.peer for request in scene.outbox.requests if isinstance(request.message, Confirm)}
    assert asked == {SESSION_1, SESSION_2}, "the client may be at session-1 now, which is linked"


def test_a_session_process_that_links_again_keeps_what_of_the_slot_that_is_searched_is_not_searched_yet() -> None:
    scene = EndingsScene()
    mine = [Publisher(f"c{n}-1", "s", 1, 1, SESSION_1.process_id, "", (b"x",)) for n in range(5)]
    scene.put(*mine)
    scene.outbox.turn_steps = 1
    scene.dies(SESSION_1)
    while not scene.endings.held:
        scene.outbox.end_one_turn()
    scene.links_again(SESSION_1)
    scene.outbox.end_one_turn()
    scene.outbox.turn_steps, scene.outbox.steps = 1_000, 0  # the next turns have more time
    scene.until(30.0)
    assert scene.left == [one.register_id for one in mine]
    assert scene.endings.held == 0


def test_a_learner_that_is_ready_again_before_the_next_table_is_reported_as_lost_no_more() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    for _ in range(2):
        scene.outbox.answer(YES, kind=Confirm)
        scene.outbox.end_turn()
    assert [(report.ready, report.lost) for report in scene.reports()] == [(["data-2"], [])]
    scene.core.closed(LEARNER, "the network")
    scene.keep([terms("a")])
    scene.pass_time(2.0)
    assert [(report.ready, report.lost) for report in scene.reports()] == [([], ["data-2"])]
    again = a_peer("data-2", Role.DATA)
    scene.follows(again)
    for _ in range(2):
        scene.outbox.answer(YES, kind=Confirm)
        scene.outbox.end_turn()
    assert [(report.ready, report.lost) for report in scene.reports()] == [(["data-2"], [])]


def test_a_follower_that_has_a_newer_table_is_not_streamed_to_before_its_leader_has_it() -> None:
    scene = Scene()
    scene.core.opened(LEARNER)
    ahead = Follow([SlotDigests(0, 1, {}, since=3)])
    reply = deliver(scene.outbox, scene.core.handlers, LEARNER, ahead)
    assert isinstance(reply, Compared)
    (difference,) = reply.differences
    assert (difference.access, difference.complete, difference.is_streamed) == (Access.MOVED, False, False)
    scene.row((), (), epoch=2)  # this one would end a stream that had begun, and the follower would not know
    scene.row((), ("data-2",), epoch=3)
    reply = deliver(scene.outbox, scene.core.handlers, LEARNER, ahead)
    assert isinstance(reply, Compared)
    (difference,) = reply.differences
    assert difference.complete
    assert LEARNER in scene.core.slots.held[0].streams


def test_an_answer_to_a_question_from_before_a_table_that_was_missed_does_not_count() -> None:
    slots = HeldSlots("data-2")
    row = Slot(0, "data-1", 1, ("data-2",))
    slots.apply(SlotTable(1, (row,)))
    side = SlotFollowing("data-1", slots, lambda: None, Counter(), lambda: 0.0)
    asked = side.digests(0)
    assert asked is not None
    slots.apply(SlotTable(3, (row,)))  # by table 2 the leader may have ended the stream
    side.take(asked, SlotDifference(0, Access.ACCEPT, 1, True, {}, is_streamed=True))
    held = slots.held[0]
    assert (held.synced, held.is_streamed, held.since) == (False, False, 3)


def test_where_all_servers_leave_one_that_is_away_leads_nothing() -> None:
    table = SlotTable(1, (Slot(0, "b", 1, ("a",)),))
    judge = Arranger(1, 2, DefaultAssigner(DefaultAssignerOptions()), even())
    leaving = Leaving(for_good=frozenset("ab"), away=frozenset("b"))
    found = judge.arrange(table, servers("a", "b"), reported(table), leaving)
    assert found.plan is not None
    assert found.plan.table.slots[0].leader == "a", "b has stopped, and a is in sync and still there"


def test_an_answer_of_a_learner_that_a_table_has_dropped_meanwhile_puts_nobody_on_trial() -> None:
    scene = Scene(learners=("data-2", "data-3"))
    scene.follows(LEARNER)
    scene.row((), ("data-3",), epoch=2)
    scene.outbox.answer(YES, kind=Confirm)
    scene.keep([terms("a")])
    assert scene.is_acknowledged(), "data-2 holds nothing any more"


def test_a_session_server_that_never_answers_marks_puts_off_an_end_only_once() -> None:
    scene = EndingsScene()
    one = Publisher("a-1", "s", 1, 1, SESSION_1.process_id, "", (b"x",))
    scene.put(one)
    scene.answers = False
    scene.lost_clients.reported(scene.slot, [one])
    grace = scene.rules.session_grace_seconds
    ends = scene.now + 3 * grace + 2.0  # a round of marks, the grace, and another round
    while scene.now < ends:
        scene.outbox.end_turn()
        for request in [each for each in scene.outbox.requests if each.peer is SESSION_1]:
            scene.outbox.requests.remove(request)
            request.answered(Answers([]), None)
        scene.outbox.advance(0.05)
        scene.endings.look()
    assert scene.left == []


def test_a_delivery_waits_for_the_tombstones_and_losses_of_both_parts_of_a_batch_that_is_split() -> None:
    scene, stored = WriteScene(), list[str]()
    for number in range(2 * WEIGHT_PER_MESSAGE):
        scene.writes.submit_gone(0, write_record(number).tombstone())
    scene.writes.when_stored([0], lambda: stored.append("all"))
    scene.outbox.end_turn()
    scene.answer()
    assert stored == [], "the half of them waits yet"
    scene.outbox.end_turn()
    scene.answer()
    assert stored == ["all"]


def test_a_link_that_lived_is_made_again_at_once_however_often_it_has_ended_before() -> None:
    async def scenario() -> None:
        world = LinkScene()
        await world.start()
        for _ in range(8):
            await asyncio.sleep(5.0)
            world.scene.peers.close(world.scene.peer_owner.here[0], "made up by this test")
            await asyncio.sleep(0.1)
            assert not world.links.connected["server"].closed
        await world.stop()

    play(scenario)


def test_after_a_link_that_lived_the_attempts_are_short_again() -> None:
    async def scenario() -> None:
        world = LinkScene()
        await world.scene.listen()
        attempts: list[float] = []

        class Counting(MemoryTransport):
            async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
                attempts.append(timeout_seconds)
                return await super().connect(address, hello, handler, timeout_seconds)

        transport = Counting(world.scene.clock, "patient", world.scene.network)
        links = Links(maker(world.scene, transport), world.supervisor, world.handler)
        world.scene.network.freeze("server")
        links.aim({"server": Target("server:1")})
        await asyncio.sleep(60.0)
        world.scene.network.thaw("server")
        await asyncio.sleep(30.0)
        link, before = links.connected["server"], len(attempts)
        assert attempts[before - 1] == 16.0
        link.close("made up by this test")
        world.scene.network.freeze("server")
        await asyncio.sleep(5.0)
        assert attempts[before : before + 2] == [1.0, 2.0]
        await world.stop()

    play(scenario)


def test_a_follower_whose_connection_broke_under_a_question_is_not_late_before_somebody_waits_for_it() -> None:
    scene = Scene(followers=("data-3",), learners=())
    scene.follows(OTHER)
    scene.keep([terms("a")])
    scene.core.closed(OTHER, "the network")
    scene.outbox.answer(None, ConnectionLost("the network"), kind=Confirm)
    scene.pass_time(2.0)
    assert scene.reports() == []


def test_a_follower_that_has_lost_its_leader_does_not_hold_the_slot_completely() -> None:
    slots = HeldSlots("data-2")
    slots.apply(SlotTable(1, (Slot(0, "data-1", 1, ("data-2",)),)))
    slots.held[0].caught_up(0.0)
    assert (slots.unsettled(), slots.are_settled) == ([], True)
    slots.leader_lost("data-1")
    assert (slots.unsettled(), slots.are_settled) == ([0], False)


def test_a_server_that_was_refused_is_refused_no_more_once_it_has_a_lease() -> None:
    scene = MemberScene()
    scene.outbox.answer(Failed("config", "the name is taken"))
    assert scene.membership.refusal == "the name is taken"
    scene.outbox.answer(LeaseGranted(1, 5.0, None))
    assert scene.membership.refusal == ""


def test_a_linked_session_server_that_was_compared_with_is_not_waited_for_again_when_it_leaves_the_view() -> None:
    scene = DataScene()
    scene.open("session-1", "session-2")
    scene.view(Slot(0, "data-1", 1, ()))
    scene.compared("session-2")
    scene.view(Slot(0, "data-1", 1, ()), sessions=("session-1",))
    assert scene.core.slots.unsettled() == [0]
    scene.compared("session-1")
    assert scene.core.slots.unsettled() == []


def test_what_no_former_connection_of_several_is_sent_again_ends_with_the_replay() -> None:
    scene = SessionScene(linger_seconds=60.0)
    first = scene.client()
    scene.publish(first, session_record(), session_record("r2"))
    scene.stored()
    scene.core.closed(first, "cut")
    second = scene.client()
    scene.publish(second, session_record(incarnation=2))
    scene.stored()
    scene.core.closed(second, "cut")
    third = scene.client()
    scene.publish(third, session_record(incarnation=3))
    scene.stored()
    assert scene.lost() == []
    deliver(scene.outbox, scene.core.handlers, third, ReplayEnded())
    scene.outbox.end_turn()
    assert scene.lost() == ["r2"]


def test_an_answer_about_older_numbers_of_members_is_not_the_newest_view() -> None:
    outbox, leases = RecordingOutbox(), Leases(MetaSettings())
    newest_view = NewestView(outbox, leases, 0, lambda: None)
    nodes = [Node(name, Role.DATA, f"{name}:1", f"{name}@1") for name in ("data-1", "data-2")]
    peers = [a_peer(node.name, Role.DATA) for node in nodes]
    old, older, newest = (View(1, revision, SlotTable(), [], []) for revision in (1, 5, 9))
    assert newest_view.above(Newest("data-1", 5, 5), old, nodes[:1], peers) is None
    assert newest_view.above(Newest("data-2", 9, 9), old, nodes[::-1], peers) is None
    outbox.answer(older)
    assert newest_view.above(Newest("data-2", 9, 9), old, nodes[::-1], peers) is None, "data-2 has not answered"
    outbox.answer(newest)
    assert newest_view.above(Newest("data-2", 9, 9), old, nodes[::-1], peers) == newest


def test_a_return_of_a_former_absence_counts_no_more_although_something_else_waits_all_the_while() -> None:
    scene = EndingsScene(clients=2)
    held = held_record("held", 5, session=SESSION_2)
    scene.put(held)
    scene.session_dies()
    scene.until(1.0)
    scene.comes_back(0)
    scene.freeze(True)
    scene.endings.lost([LostRecord(scene.slot, held)])
    scene.links_again(SESSION_1)
    scene.view(SESSION_1, SESSION_2)
    scene.put(held_record("again", 1))
    scene.until(300.0)
    scene.freeze(False)
    scene.session_dies()
    assert "again" in scene.ended(301.0 + scene.endings.grace_seconds), "nobody has come back since it died once more"


def test_nobody_waits_for_a_learner_that_was_ready_once_a_newer_table_leaves_it_out() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    for _ in range(2):
        scene.outbox.answer(YES, kind=Confirm)
        scene.outbox.end_turn()
    assert [report.ready for report in scene.reports()] == [["data-2"]]
    scene.keep([terms("a")])
    assert not scene.is_acknowledged(), "the report binds under this table"
    scene.row((), (), epoch=2)
    assert scene.is_acknowledged(), "by the newer table it holds the slot no more"
