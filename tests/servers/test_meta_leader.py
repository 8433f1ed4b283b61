"""The core of a meta server that begins to lead, does not lead, or is asked for something."""

from __future__ import annotations

import pytest
from slotreeve.errors import InvalidTable
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Leadership
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, EvenBalancerOptions
from slotreeve_protocol.meta_messages import (
    Configs,
    GetConfigs,
    GetHistory,
    GetLeader,
    GetView,
    History,
    LeaderIs,
    Leave,
    PutConfig,
    Resign,
)
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_servers.meta.arranging.arranger import Arrangement, Arranger
from slotreeve_servers.meta.configuration import PREFIX, ProvidedConfig

from tests.servers.meta_scene import TOOL, Scene
from tests.servers.recording_outbox import deliver


def test_a_server_that_does_not_lead_answers_with_the_leader_and_changes_nothing() -> None:
    scene = Scene(leads=False)
    scene.report(Leadership("meta-2", 3, False, 0.0, "elected"))
    scene.connect("session-1")
    leader = LeaderIs(3, "meta-2", "meta-2:1")
    assert scene.heartbeat("session-1") == leader
    for request in (GetLeader(), Leave(scene.node("session-1"), "x"), GetConfigs("")):
        assert deliver(scene.outbox, scene.core.handlers, TOOL, request) == leader
    for later in (Resign(), PutConfig("k", b"v", None)):
        deliver(scene.outbox, scene.core.handlers, TOOL, later)
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
    assert all(slot.learners and not slot.followers for slot in view.table.slots), "nobody knows who is in sync"
    scene.settle(("data-1", "data-2"))
    after = scene.core.view.read()
    assert (after.data, after.sessions) == (view.data, view.sessions)
    assert all(slot.followers and not slot.learners for slot in after.table.slots)
    assert [slot.leader for slot in after.table.slots] == [slot.leader for slot in before.table.slots]


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
        deliver(scene.outbox, scene.core.handlers, TOOL, request)
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
    assert deliver(scene.outbox, scene.core.handlers, TOOL, GetConfigs("")) == Configs([entry])
    assert ProvidedConfig.entry_of("view", stored) is None


def test_a_banned_data_server_hands_over_its_slots() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2", "data-3")
    scene.election.state.store(PREFIX + ORDERS_KEY, b"\x01" + Orders(banned=frozenset({"data-2"})).encode())
    scene.settle(("data-1", "data-2", "data-3"), 4.0)
    assert all("data-2" not in (s.leader, *s.followers) for s in scene.core.view.read().table.slots)


def test_a_table_that_may_not_follow_is_not_committed_and_the_next_look_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2")

    class Backwards(Arranger):
        def arrange(self, *_: object) -> Arrangement:
            raise InvalidTable("made up by this test")

    scene.core._arranger = Backwards(
        4, 2, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()), 0
    )
    before = scene.core.view.read()
    scene.connect("session-1")
    scene.heartbeat("session-1")
    scene.outbox.advance(1.0)
    assert scene.commit_all() == []
    assert "ALARM: no plan for the next table: made up by this test" in caplog.text
    assert scene.core.view.read() == before
    scene.core._arranger = Arranger(
        4, 2, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()), 0
    )
    scene.connect("session-2")
    scene.heartbeat("session-2")
    scene.outbox.advance(1.0)
    assert len(scene.commit_all()) == 1


def test_views_history_and_counters_can_be_asked_for_by_anybody() -> None:
    scene = Scene()
    view = scene.cluster("data-1", "session-1")
    assert deliver(scene.outbox, scene.core.handlers, TOOL, GetView()) == view
    history = deliver(scene.outbox, scene.core.handlers, TOOL, GetHistory())
    assert isinstance(history, History)
    assert [change.leader for change in history.changes] == ["meta-1"]
    counters = scene.core.counters()
    assert (counters["data_servers"], counters["session_servers"], counters["leading"]) == (1, 1, 1)
    assert counters["revision"] == view.revision
    assert isinstance(view.table, SlotTable)


def test_a_new_leader_gives_slots_to_who_is_in_sync_without_having_heard_anybody() -> None:
    """What is committed decides: it needs no report of the past."""
    scene = Scene(replicas=3)
    before = scene.cluster("data-1", "data-2", "data-3")
    led = [slot for slot in before.table.slots if slot.leader == "data-1"]
    assert led
    scene.report(Leadership("meta-2", 2, False, 0.0, "lost"))
    scene.lead(3)
    scene.core.closed(scene.peers["data-1"], "killed")
    scene.connect("data-1", 2)
    scene.heartbeat("data-1", 2, unsettled=(0, 1, 2, 3))
    after = scene.commit_all()[0].table
    for old in led:
        new = after.slots[old.id]
        assert new.leader in old.followers
        assert {new.leader, *new.followers} == {*old.followers}
        assert new.learners == ("data-1",), "it was started again, and holds nothing"


def test_of_two_in_sync_a_new_leader_takes_one_that_it_has_heard() -> None:
    scene = Scene(replicas=3)
    before = scene.cluster("data-1", "data-2", "data-3")
    led = [slot.id for slot in before.table.slots if slot.leader == "data-1"]
    scene.report(Leadership("meta-2", 2, False, 0.0, "lost"))
    scene.lead(3)
    scene.heartbeat("data-3")
    scene.core.closed(scene.peers["data-1"], "killed")
    scene.connect("data-1", 2)
    scene.heartbeat("data-1", 2, unsettled=(0, 1, 2, 3))
    after = scene.commit_all()[0].table
    assert {after.slots[number].leader for number in led} == {"data-3"}
