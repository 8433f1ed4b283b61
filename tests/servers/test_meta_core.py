"""The core of a meta server: leases, views, leadership, configuration."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from slotreeve.errors import InvalidTable, ModelError, NotLeader
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotFacts, SlotTable
from slotreeve.ports import Leadership
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, EvenBalancerOptions
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import (
    Configs,
    GetConfigs,
    GetHistory,
    GetLeader,
    GetView,
    Heartbeat,
    History,
    LeaderIs,
    LeaseGranted,
    Leave,
    PutConfig,
    Resign,
    Stopping,
    View,
)
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_servers.meta.arranger import Arranger
from slotreeve_servers.meta.configuration import PREFIX, ProvidedConfig
from slotreeve_servers.meta.core import MetaCore
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.settings import Settings

from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver
from tests.servers.scripted_election import ScriptedElection

FACTS = SlotFacts(4, 2, "crc32c")
TOOL = a_peer("tool", Role.TOOL)


class Scene:
    """meta-1 with an election that the test sets; it leads in term 1 unless told otherwise."""

    def __init__(self, leads: bool = True, meta: Sequence[str] = ("meta-1", "meta-2"), replicas: int = 2) -> None:
        self.outbox, self.election = RecordingOutbox(), ScriptedElection()
        settings = Settings.model_validate({"cluster": {"slots": 4, "meta": {name: f"{name}:1" for name in meta}}})
        arranger = Arranger(
            4, replicas, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()), 0
        )
        self.core = MetaCore(self.outbox, self.election, arranger, settings, "meta-1", FACTS)
        self.peers: dict[str, Peer] = {}
        self.core.start()
        if leads:
            self.lead(1)

    def lead(self, term: int, seconds: float = float("inf")) -> None:
        self.report(Leadership("meta-1", term, True, self.outbox.now() + seconds, "elected"))

    def report(self, leadership: Leadership) -> None:
        self.election.current = leadership
        self.core.leadership_changed(leadership)
        self.outbox.end_turn()

    def node(self, name: str, life: int = 1) -> Node:
        role = Role.DATA if name.startswith("data") else Role.SESSION
        return Node(name, role, f"{name}:1", f"{name}@{life}")

    def connect(self, name: str, life: int = 1) -> Peer:
        node = self.node(name, life)
        peer = self.peers[name] = Peer(name, node.role, node.process_id, f"{name}:9")
        self.core.opened(peer)
        self.outbox.end_turn()
        return peer

    def heartbeat(
        self,
        name: str,
        life: int = 1,
        stopping: Stopping = Stopping.NO,
        unsettled: tuple[int, ...] = (),
        has: tuple[int, int] | None = None,
    ) -> LeaseGranted | LeaderIs:
        """``has``: revision and table epoch of the newest view that the server has."""
        revision, epoch = has or (0, self.core.view.read().table.epoch)
        message = Heartbeat(self.node(name, life), revision, epoch, list(unsettled), stopping)
        reply = deliver(self.outbox, self.core.desk, self.peers[name], message)
        assert isinstance(reply, LeaseGranted | LeaderIs)
        return reply

    def loses_leader(self, name: str, unsettled: list[int], recent: list[int], life: int = 1) -> None:
        """The server ``name`` reports slots that it does not hold completely, or does not any more."""
        epoch = self.core.view.read().table.epoch
        message = Heartbeat(self.node(name, life), 0, epoch, unsettled, Stopping.NO, recent)
        assert isinstance(deliver(self.outbox, self.core.desk, self.peers[name], message), LeaseGranted)

    def commit_all(self) -> list[View]:
        """Carry out every commit that the core begins; returns the views."""
        views: list[View] = []
        while commits := [effect.what for effect in self.outbox.effects if effect.kind == "commit"]:
            (view,) = commits
            assert isinstance(view, View)
            self.outbox.effects = [effect for effect in self.outbox.effects if effect.kind != "commit"]
            old = self.core.view.read()
            self.election.state.store("view", msgspec.msgpack.encode(view), view.term)
            self.core.committed(old, view)
            self.outbox.end_turn()
            views.append(view)
        return views

    def cluster(self, *names: str) -> View:
        """These servers join; returns the view when nothing is left to change."""
        for name in names:
            self.connect(name)
            self.heartbeat(name)
        self.settle(names)
        return self.core.view.read()

    def settle(self, names: tuple[str, ...], seconds: float = 2.0) -> None:
        """Every one of ``names`` reports again and again that it holds everything."""
        for _ in range(round(seconds / 0.25)):
            self.outbox.advance(0.25)
            self.commit_all()
            for name in names:
                self.heartbeat(name)
            self.commit_all()


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


def test_a_server_that_leaves_for_a_restart_keeps_its_place_for_that_long() -> None:
    scene = Scene()
    scene.cluster("session-1", "session-2")
    leave = Leave(scene.node("session-1"), "restart", 5.0)
    assert deliver(scene.outbox, scene.core.desk, scene.peers["session-1"], leave) == Done()
    scene.settle(("session-2",), 4.0)
    assert len(scene.core.view.read().sessions) == 2
    scene.settle(("session-2",), 4.0)
    assert [node.name for node in scene.core.view.read().sessions] == ["session-2"]


def test_a_server_that_leaves_for_good_is_no_member_at_once() -> None:
    scene = Scene()
    scene.cluster("session-1", "session-2")
    scene.outbox.effects.clear()
    deliver(scene.outbox, scene.core.desk, scene.peers["session-1"], Leave(scene.node("session-1"), "stopped"))
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
            deliver(scene.outbox, scene.core.desk, stranger, message)
    assert scene.commit_all() == []
    assert scene.core.view.read() == before


def test_a_dead_leader_is_replaced_by_the_follower_that_was_in_sync_until_its_connection_ended() -> None:
    """The other follower has just been started again. Both report by then that they are not in sync."""
    scene = Scene(replicas=3)
    scene.cluster("data-1", "data-2", "data-3")
    scene.core.closed(scene.peers["data-1"], "killed")
    scene.outbox.advance(2.0)
    scene.commit_all()
    scene.connect("data-1", 2)
    scene.heartbeat("data-1", 2, unsettled=(0, 1, 2, 3))
    before = scene.commit_all()[-1].table
    dead, kept = "data-2", "data-3"
    lost = [slot.id for slot in before.slots if slot.leader == dead]
    assert lost
    assert all(slot.followers == ("data-3", "data-1") for slot in before.slots if slot.leader == dead)
    scene.core.closed(scene.peers[dead], "killed")
    scene.loses_leader(kept, lost, lost)
    scene.loses_leader("data-1", [0, 1, 2, 3], [], life=2)
    scene.outbox.advance(2.0)
    after = scene.commit_all()[-1].table
    assert {after.slots[number].leader for number in lost} == {kept}


def test_a_table_that_changes_just_before_a_leader_is_given_up_does_not_hide_who_was_in_sync() -> None:
    """The server that joins reports first under the new table, that it holds nothing; the other one has not reported
    under it."""
    scene = Scene(replicas=3)
    scene.cluster("data-1", "data-2", "data-3")
    scene.core.closed(scene.peers["data-1"], "killed")
    scene.outbox.advance(2.0)
    before = scene.commit_all()[-1].table
    dead, kept = "data-2", "data-3"
    lost = [slot.id for slot in before.slots if slot.leader == dead]
    assert lost
    scene.heartbeat(dead)
    scene.heartbeat(kept)
    scene.core.closed(scene.peers[dead], "killed")
    scene.connect("data-1", 2)
    scene.heartbeat("data-1", 2, unsettled=(0, 1, 2, 3))
    assert scene.commit_all()[-1].table.slots[lost[0]].followers == ("data-3", "data-1")
    scene.heartbeat("data-1", 2, unsettled=(0, 1, 2, 3))
    scene.outbox.advance(2.0)
    after = scene.commit_all()[-1].table
    assert {after.slots[number].leader for number in lost} == {kept}


def test_a_server_that_does_not_lead_answers_with_the_leader_and_changes_nothing() -> None:
    scene = Scene(leads=False)
    scene.report(Leadership("meta-2", 3, False, 0.0, "elected"))
    scene.connect("session-1")
    leader = LeaderIs(3, "meta-2", "meta-2:1")
    assert scene.heartbeat("session-1") == leader
    for request in (GetLeader(), Leave(scene.node("session-1"), "x"), GetConfigs("")):
        assert deliver(scene.outbox, scene.core.desk, TOOL, request) == leader
    for later in (Resign(), PutConfig("k", b"v", None)):
        deliver(scene.outbox, scene.core.desk, TOOL, later)
    assert [effect.what for effect in scene.outbox.take("replied", "resign", "put_config")] == [leader, leader]
    assert scene.commit_all() == []


def test_a_leader_whose_lease_has_ended_does_not_act() -> None:
    scene = Scene(leads=False)
    scene.lead(2, seconds=0.5)
    scene.connect("session-1")
    scene.outbox.advance(0.5)
    assert isinstance(scene.heartbeat("session-1"), LeaderIs)
    assert scene.commit_all() == []


def test_a_new_leader_goes_on_from_the_committed_view_with_fresh_leases() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2", "session-1")
    scene.report(Leadership("meta-2", 2, False, 0.0, "resigned"))
    scene.outbox.advance(60.0)
    scene.lead(3)
    scene.outbox.advance(0.5)
    assert scene.commit_all() == []
    assert scene.core.view.read() == before


def test_members_with_a_newer_view_are_led_on_from_above_their_numbers_under_new_leader_epochs() -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2", "session-1")
    scene.heartbeat("session-1", has=(before.revision + 7, before.table.epoch + 4))
    scene.outbox.advance(0.1)
    view, *later = scene.commit_all()
    assert (view.revision, view.table.epoch) == (before.revision + 8, before.table.epoch + 5)
    assert {slot.leader_epoch for slot in view.table.slots} == {view.table.epoch}
    assert [slot.leader for slot in view.table.slots] == [slot.leader for slot in before.table.slots]
    assert later == []
    assert scene.core.counters()["state_set_back"] == 1
    scene.heartbeat("session-1", has=(view.revision, view.table.epoch))
    scene.settle(("data-1", "data-2"))
    assert scene.core.view.read() == view


@pytest.mark.parametrize("has", [(1 << 60, 1), (5, 1 << 60)])
def test_a_member_that_claims_impossible_numbers_changes_nothing(has: tuple[int, int]) -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2", "session-1")
    scene.heartbeat("session-1", has=has)
    scene.outbox.advance(0.5)
    assert scene.commit_all() == []
    assert scene.core.view.read() == before


@pytest.mark.parametrize("names", [("data-1", "data-2"), ("data-2", "data-1")])
def test_members_of_two_histories_are_both_led_on_from_above_their_numbers(names: tuple[str, str]) -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2", "session-1")
    more_views, higher_table = names
    scene.heartbeat(more_views, has=(before.revision + 9, before.table.epoch + 1))
    scene.heartbeat(higher_table, has=(before.revision + 2, before.table.epoch + 6))
    scene.outbox.advance(0.1)
    view = scene.commit_all()[-1]
    assert view.revision > before.revision + 9
    assert view.table.epoch > before.table.epoch + 6
    assert {slot.leader_epoch for slot in view.table.slots} == {view.table.epoch}


def test_a_new_meta_state_makes_its_first_table_above_what_members_have() -> None:
    scene = Scene()
    for name in ("data-1", "data-2"):
        scene.connect(name)
        scene.heartbeat(name, has=(40, 9))
    scene.outbox.advance(0.1)
    assert scene.commit_all() == []
    scene.outbox.advance(5.0)
    view, *_later = scene.commit_all()
    assert (view.revision, view.table.epoch) == (41, 10)
    assert {slot.leader_epoch for slot in view.table.slots} == {10}
    assert {slot.leader for slot in view.table.slots} == {"data-1", "data-2"}


def test_the_leader_resigns_and_writes_configuration_where_it_is_asked_to() -> None:
    scene = Scene()
    for request in (Resign(), PutConfig("k", b"v", None)):
        deliver(scene.outbox, scene.core.desk, TOOL, request)
    assert [effect.kind for effect in scene.outbox.take("resign", "put_config")] == ["resign", "put_config"]


def test_a_committed_configuration_is_sent_to_session_servers_and_read_by_everybody() -> None:
    scene = Scene()
    scene.connect("session-1")
    scene.connect("data-1")
    stored = scene.election.state.store(PREFIX + "k", b"\x01v")
    entry = ProvidedConfig.entry_of(PREFIX + "k", stored)
    assert entry is not None
    scene.core.config_committed(entry)
    assert scene.outbox.messages(Configs, scene.peers["session-1"]) == [Configs([entry])]
    assert scene.outbox.messages(Configs, scene.peers["data-1"]) == []
    assert deliver(scene.outbox, scene.core.desk, TOOL, GetConfigs("")) == Configs([entry])
    assert ProvidedConfig.entry_of("view", stored) is None


def test_a_banned_data_server_hands_over_its_slots() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2", "data-3")
    scene.election.state.store(PREFIX + ORDERS_KEY, b"\x01" + Orders(banned=frozenset({"data-2"})).encode())
    scene.settle(("data-1", "data-2", "data-3"), 4.0)
    assert all("data-2" not in (s.leader, *s.followers) for s in scene.core.view.read().table.slots)


def test_a_table_that_may_not_follow_is_not_committed_and_the_next_look_comes() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2")

    class Backwards(Arranger):
        def next_plan(self, *_: object) -> None:
            raise InvalidTable("made up by this test")

    scene.core._arranger = Backwards(
        4, 2, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()), 0
    )
    try:
        scene.core._look_at_cluster()
    except InvalidTable:
        pass
    else:
        raise AssertionError("the look did not fail")
    scene.core._arranger = Arranger(
        4, 2, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()), 0
    )
    scene.connect("session-1")
    scene.heartbeat("session-1")
    scene.outbox.advance(1.0)
    assert len(scene.commit_all()) == 1


def test_views_history_and_counters_can_be_asked_for_by_anybody() -> None:
    scene = Scene()
    view = scene.cluster("data-1", "session-1")
    assert deliver(scene.outbox, scene.core.desk, TOOL, GetView()) == view
    history = deliver(scene.outbox, scene.core.desk, TOOL, GetHistory())
    assert isinstance(history, History)
    assert [change.leader for change in history.changes] == ["meta-1"]
    counters = scene.core.counters()
    assert (counters["data_servers"], counters["session_servers"], counters["leading"]) == (1, 1, 1)
    assert counters["revision"] == view.revision
    assert isinstance(view.table, SlotTable)
