"""Rules of copies, ends and eras hold where something was forgotten, is stale, or comes in an odd order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from msgspec import structs
from slotreeve.errors import NotLeader
from slotreeve.model.datum import NO_VERSION, content_digest
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Leadership
from slotreeve_client.connector import Connector
from slotreeve_protocol.client_messages import Redirect, Scope, Sessions, Subscribe, Want
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    GetNewerView,
    Leave,
    SlotCopies,
    View,
)
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Compare,
    Compared,
    ComparedUpTo,
    Confirm,
    DatumChange,
    DeclareInterest,
    Follow,
    Known,
    SlotAnswer,
    SlotDifference,
    SlotDigests,
    SlotEpoch,
    SlotInterest,
)
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.replication.comparison import SLOTS_PER_REQUEST, DigestExchange, Progress
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.meta.arranging.arranger import without_replaced
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.paced_work import AGAIN_SECONDS
from slotreeve_servers.session.clients.configuration import ConfigMirror
from slotreeve_servers.session.clients.limits import ClientLimits
from slotreeve_servers.session.settings import SessionSettings

from tests.client.connector_scene import Scene as ConnectorScene
from tests.client.connector_scene import play
from tests.servers import meta_scene
from tests.servers.core_scenes import SERVICE, SessionScene, record
from tests.servers.endings_scene import EndingsScene
from tests.servers.meta_scene import TOOL
from tests.servers.meta_scene import Scene as MetaScene
from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver
from tests.servers.session_scene import SERVICE as WANTED
from tests.servers.session_scene import Scene
from tests.servers.test_digest_exchange import PEER, CountingSide, asked
from tests.servers.test_in_sync import LEARNER, ready
from tests.servers.test_in_sync import Scene as LeaderScene
from tests.servers.test_lease_keeper import META, terms
from tests.servers.test_membership import Member, MemberScene
from tests.servers.test_paced_work import Scene as WorkScene
from tests.servers.world import newer_view_of, node_of

# --- eras ------------------------------------------------------------------------------------------------------------


def test_a_cluster_that_is_built_anew_by_the_same_names_has_another_era(monkeypatch: pytest.MonkeyPatch) -> None:
    eras = list[str]()
    for life in (1, 2):
        monkeypatch.setattr(meta_scene, "THIS", structs.replace(meta_scene.THIS, process_id=f"meta-1@{life}"))
        eras.append(MetaScene().cluster("data-1", "session-1").era)
    assert eras[0] != eras[1]


def test_what_there_was_in_any_former_era_is_over_where_the_present_one_does_not_have_it() -> None:
    mirror = ConfigMirror(RecordingOutbox(), ClientLimits(SessionSettings()))
    mirror.load([ConfigEntry("orders", b"ban", 4)])
    mirror.begin_anew()
    mirror.begin_anew()
    assert mirror.load([]) == [ConfigEntry("orders", None, 0)]


def test_a_client_that_goes_back_to_its_former_server_is_in_the_era_of_that_one_again() -> None:
    async def story(scene: ConnectorScene, connector: Connector) -> None:
        await connector.connected()
        scene.second.era = "two"
        scene.first.connections[0].send(Sessions(["first:1", "second:1"], "one"))
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(0.1)
        assert connector.address == "second:1"
        scene.second.admits = False
        scene.network.cut("client", "second")
        await asyncio.sleep(0.5)
        assert connector.address == "first:1"

    assert play(story).owner.events[:3] == [
        "first@process",
        "second@process in another era",
        "first@process in another era",
    ]


class Settings:
    """Live settings of a server that follows them."""

    def __init__(self) -> None:
        self.version = 3

    def take(self, value: bytes | None, version: int) -> None:
        """Nothing is read here."""


def test_a_session_server_that_comes_into_an_era_which_goes_on_above_no_numbers_of_its_own_begins_anew() -> None:
    scene = SessionScene()
    view = structs.replace(scene.core.membership.view, revision=2, era="one")
    follow = scene.core.membership.handlers.messages[View]
    follow(META, view)
    clients = [scene.client(name) for name in ("first", "second")]
    want = Subscribe([Want(SERVICE, Scope.DATA_CENTER)])
    for client in clients:
        deliver(scene.outbox, scene.core.handlers, client, want)
    change = DatumChange(SERVICE, NO_VERSION, 7, content_digest([record()]), [record()], [])
    scene.core.interests.changed(change, 0.0)
    scene.core.routes.compares("data-2", 0, 9)
    scene.outbox.end_turn()
    scene.outbox.take()
    follow(META, structs.replace(view, revision=3, era="two", above="one"))
    scene.outbox.end_turn()
    assert not scene.outbox.take("closed")
    assert scene.core.interests.services[SERVICE].copy.version == 7
    follow(META, structs.replace(view, revision=4, era="four", above="three"))
    assert [effect.peer for effect in scene.outbox.take("closed")] == clients
    assert not scene.core.interests.services
    assert scene.core.routes.leader_of(0) == (scene.data, 1), "who compared in the former era is no leader in this one"
    deliver(scene.outbox, scene.core.handlers, scene.client("third"), want)
    scene.outbox.end_turn()
    asked = [effect.what for effect in scene.outbox.take("asked") if isinstance(effect.what, DeclareInterest)]
    assert [each.interests for each in asked] == [[SlotInterest(0, 1, [Known(SERVICE, NO_VERSION, 0)], [])]]


def test_live_settings_are_read_again_in_another_era_although_their_version_is_the_same() -> None:
    scene = MemberScene()
    settings = scene.membership.settings = Settings()
    for revision, era, version in ((1, "one", 3), (2, "one", 3), (3, "two", -1)):
        scene.take("meta-1", View(1, revision, SlotTable(), [], [], era=era))
        assert settings.version == version


# --- views -----------------------------------------------------------------------------------------------------------


class Reader(Member):
    """A core that reads the view of its membership while it follows a newer one."""

    scene: MemberScene

    def view_changed(self, old: View, view: View) -> None:
        """It is the present one."""
        assert self.scene.membership.view is view
        super().view_changed(old, view)


def test_a_core_that_follows_a_newer_view_finds_it_in_its_membership() -> None:
    scene = MemberScene()
    reader = Reader()
    reader.scene, scene.membership._member = scene, reader
    scene.take("meta-1", View(1, 1, SlotTable(), [], []))
    assert reader.revisions == [(0, 1)]


def test_a_slot_without_any_copy_waits_for_the_session_servers_that_its_own_view_misses() -> None:
    outbox = RecordingOutbox()
    core = DataCore(outbox, node_of("data-1"), DataSettings(), 1.0)
    table = SlotTable(1, (Slot(0, "data-1", 1, ()),))
    view = View(1, 1, table, [node_of("data-1")], [], missing=["session-9@1"])
    deliver(outbox, core.membership.handlers, META, view)
    assert not core.slots.held[0].serving


def test_another_member_is_asked_where_the_first_one_could_not_be_asked() -> None:
    outbox, behind, ahead = RecordingOutbox(), a_peer("data-1", Role.DATA), a_peer("data-2", Role.DATA)
    newer: NewerView = newer_view_of(outbox, node_of("session-1"))
    outbox.unreachable.add(behind)
    newer.heard(behind, 5)
    newer.heard(ahead, 5)
    assert [request.peer for request in outbox.requests] == [ahead]


def test_a_member_is_asked_for_its_newer_view_over_the_connection_that_it_made_last() -> None:
    scene = MetaScene()
    scene.connect("data-1")
    newer = scene.connect("data-1")
    scene.heartbeat("data-1", has=(40, 9))
    scene.outbox.advance(0.1)
    assert [r.peer for r in scene.outbox.requests if isinstance(r.message, GetNewerView)] == [newer]


def test_a_leader_that_leads_again_asks_members_for_their_newer_view_again() -> None:
    scene = MetaScene(slots=2)
    data = [scene.node(name) for name in ("data-1", "data-2")]
    known = View(1, 40, SlotTable(9, (Slot(0, "data-1", 3, ()), Slot(1, "data-2", 5, ()))), data, [])
    scene.connect("data-1")
    for term in (1, 3):
        if term > 1:
            scene.report(Leadership("meta-2", 2, False, 0.0, "elected"))
            scene.lead(term)
        scene.heartbeat("data-1", has=(40, 9))
        scene.outbox.advance(0.1)
        scene.outbox.answer(known, kind=GetNewerView)
        (view,) = [effect.what for effect in scene.outbox.take("commit") if isinstance(effect.what, View)]
        scene.core.not_committed(view, NotLeader("it lost the lead meanwhile"))
        assert [row.leader for row in view.table.slots] == ["data-1", "data-2"], "data-2 may be heard yet"


# --- leases of members -----------------------------------------------------------------------------------------------


def test_members_that_are_silent_keep_their_leases_although_tools_connect_again_and_again() -> None:
    scene = MetaScene()
    scene.cluster("data-1", "session-1", "session-2")
    for _ in range(20):
        scene.core.opened(a_peer(TOOL.node, TOOL.role))
        scene.outbox.advance(1.0)
    assert scene.commit_all() == []


def test_after_a_moment_in_which_all_were_cut_off_the_first_that_is_back_ends_no_lease_of_another() -> None:
    scene = MetaScene()
    names = ("data-1", "data-2", "data-3")
    scene.cluster(*names)
    for name in names:
        scene.core.closed(scene.peers[name], "the switch failed")
    scene.outbox.advance(0.5)
    scene.connect("data-1")
    scene.heartbeat("data-1")
    scene.outbox.advance(0.7)
    assert scene.commit_all() == []


# --- copies ----------------------------------------------------------------------------------------------------------


def test_a_process_whose_predecessor_is_in_the_table_and_no_member_is_a_replaced_one() -> None:
    a, b = (Node(name, Role.DATA, f"{name}:1", f"{name}@2") for name in "ab")
    after = without_replaced(SlotTable(3, (Slot(0, "a", 2, ("b",)), Slot(1, "b", 2, ("a",)))), [b], [a, b])
    assert [(row.leader, row.followers, row.learners) for row in after.slots] == [(None, ("b",), ()), ("b", (), ("a",))]


def test_where_all_data_servers_were_stopped_and_started_again_none_leads_under_the_leader_epoch_of_before() -> None:
    scene = MetaScene()
    before = scene.cluster("data-1", "session-1").table
    leave = Leave(scene.node("data-1"), "stopped", 0.0)
    deliver(scene.outbox, scene.core.handlers, scene.peers["data-1"], leave)
    scene.settle(("session-1",))
    assert (scene.core.view.read().data, scene.core.view.read().table) == ([], before)
    scene.connect("data-1", life=2)
    scene.heartbeat("data-1", life=2)
    view = scene.commit_all()[-1]
    assert [node.process_id for node in view.data] == ["data-1@2"]
    pairs = zip(before.slots, view.table.slots, strict=True)
    assert all(now.leader_epoch > former.leader_epoch for former, now in pairs)


def test_a_follower_is_lost_in_time_although_its_leader_was_frozen_before() -> None:
    scene = LeaderScene(("data-3",), ())
    scene.outbox.unattended = 60.0
    scene.keep([terms("a")])
    scene.pass_time(2.5)
    assert scene.reports() == [SlotCopies(0, 1, [], ["data-3"])]


def test_a_learner_of_a_slot_that_its_leader_leads_anew_is_asked_and_reported_under_the_new_leader_epoch() -> None:
    scene = LeaderScene()
    nodes = [node_of("data-1"), node_of("data-2"), node_of("data-3")]
    table = SlotTable(2, (Slot(0, "data-1", 2, (), ("data-2",)),))
    deliver(scene.outbox, scene.core.membership.handlers, META, View(1, 2, table, nodes, []))
    scene.core.opened(LEARNER)
    deliver(scene.outbox, scene.core.handlers, LEARNER, Follow([SlotDigests(0, 2, {}, since=2)]))
    ready(scene)
    assert scene.reports() == [SlotCopies(0, 2, ["data-2"], [])]


def test_a_learner_that_begins_to_copy_anew_is_ready_no_more() -> None:
    scene = LeaderScene()
    scene.follows(LEARNER)
    ready(scene)
    scene.row((), ("data-2",), 2)
    scene.outbox.part_bytes = 0  # no answer is complete
    deliver(scene.outbox, scene.core.handlers, LEARNER, Follow([SlotDigests(0, 1, {}, since=2)]))
    assert LEARNER in scene.core.slots.held[0].copying
    assert scene.reports() == []


def test_a_learner_does_not_answer_for_a_table_that_it_does_not_have_however_many_views_it_has() -> None:
    outbox, leader = RecordingOutbox(), a_peer("data-1", Role.DATA)
    core = DataCore(outbox, node_of("data-2"), DataSettings(), 1.0)
    table = SlotTable(1, (Slot(0, "data-1", 1, (), ("data-2",)),))
    deliver(outbox, core.membership.handlers, META, View(1, 7, table, [node_of("data-2")], []))
    core.slots.held[0].synced = True
    for epoch, access in ((1, Access.ACCEPT), (2, Access.MISMATCH)):
        reply = deliver(outbox, core.leaders.handlers, leader, Confirm([SlotEpoch(0, 1)], epoch, 7))
        assert reply == Answers([SlotAnswer(0, access, 1)], 7)


def test_a_slot_that_waits_with_what_was_compared_before_is_compared_from_the_start_under_another_table() -> None:
    outbox, side = RecordingOutbox(), CountingSide(Progress.ON)
    exchange = DigestExchange(outbox, PEER, side)
    exchange.add(range(3 * SLOTS_PER_REQUEST))
    upto = ComparedUpTo("s", 0, 0)
    numbers = asked(outbox)
    outbox.answer(Compared([SlotDifference(n, Access.ACCEPT, 1, False, {"s": []}, upto=upto) for n in numbers]))
    exchange.add(numbers)
    side.progress = Progress.DONE
    seen = list[ComparedUpTo]()
    while outbox.requests:
        (request,) = outbox.requests
        assert isinstance(request.message, Compare)
        seen += [each.after for each in request.message.slots if each.slot in numbers]
        outbox.answer(Compared([SlotDifference(n, Access.ACCEPT, 1, True, {}) for n in asked(outbox)]))
    assert seen == [ComparedUpTo()] * len(numbers)


# --- ends ------------------------------------------------------------------------------------------------------------


def test_a_longer_grace_that_the_operator_sets_counts_for_what_is_lost_then() -> None:
    scene = EndingsScene(clients=1)
    scene.endings.rules_changed(scene.rules.model_copy(update={"session_grace_seconds": 9.0}))
    scene.session_dies()
    assert scene.ended(8.0) == set()
    assert scene.ended(11.0) == {"client0"}


# --- work in parts ---------------------------------------------------------------------------------------------------


def test_patient_work_that_raises_begins_anew_after_a_while_too() -> None:
    scene, entries = WorkScene(), ["a", "fails", "b"]

    def work() -> Iterator[None]:
        while entries:
            if (entry := entries.pop(0)) == "fails":
                raise OSError("the disk is full")
            scene.log.append(entry)
            yield

    scene.outbox.pace(work, is_patient=True)
    with pytest.raises(OSError, match="disk is full"):
        scene.turn()
    scene.outbox.advance(AGAIN_SECONDS)
    assert scene.log == ["a", "b"]


def test_an_end_of_interest_that_was_refused_is_not_sent_again_where_somebody_has_subscribed_since() -> None:
    scene, slot = Scene(), len(WANTED) % 2
    first, second = scene.client("first"), scene.client("second")

    def declared(access: Access) -> list[tuple[list[str], list[str]]]:
        scene.outbox.end_turn()
        found = []
        for request in [r for r in scene.outbox.requests if isinstance(r.message, DeclareInterest)]:
            assert isinstance(request.message, DeclareInterest)
            found += [([k.data_info_id for k in i.wanted], list(i.unwanted)) for i in request.message.interests]
            scene.outbox.answer(Answers([SlotAnswer(slot, access, 1)]), kind=DeclareInterest)
        return found

    scene.interests.subscribe(first, Want(WANTED, Scope.DATA_CENTER), slot)
    assert declared(Access.ACCEPT) == [([WANTED], [])]
    scene.interests.unsubscribe(first, WANTED)
    scene.outbox.end_turn()
    scene.interests.subscribe(second, Want(WANTED, Scope.DATA_CENTER), slot)
    assert declared(Access.MOVED) == [([], [WANTED]), ([WANTED], [])]
    scene.outbox.advance(1.0)
    told = declared(Access.ACCEPT)
    assert told
    assert all(unwanted == [] for _, unwanted in told)
