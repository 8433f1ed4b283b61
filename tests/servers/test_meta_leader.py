"""The core of a meta server that begins to lead, does not lead, or is asked for something."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace
from slotreeve.errors import InvalidTable, RequestTimeout
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Leadership
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, EvenBalancerOptions
from slotreeve_machines.beside import Work, Worked
from slotreeve_protocol.general_messages import Done, Failed
from slotreeve_protocol.meta_messages import (
    Configs,
    GetConfigs,
    GetHistory,
    GetLeader,
    GetNewerView,
    GetView,
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
    scene.outbox.answer(Failed("SR208", "one of release 0.1"), kind=GetNewerView)
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


@pytest.mark.parametrize("has", [(1 << 60, 1), (5, 1 << 60), (5, 1 << 31)])
def test_a_member_that_claims_impossible_numbers_changes_nothing(has: tuple[int, int]) -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2", "session-1")
    scene.heartbeat("session-1", has=has)
    scene.outbox.advance(0.5)
    assert scene.commit_all() == []
    assert scene.core.view.read() == before


@pytest.mark.parametrize("rows", [(), (Slot(0, "data-1", 3, ()),)], ids=["no slot", "too few"])
def test_a_table_of_another_number_of_slots_is_not_gone_on_from(rows: tuple[Slot, ...]) -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2", "session-1")
    scene.heartbeat("session-1", has=(before.revision + 7, before.table.epoch + 4))
    scene.outbox.advance(0.1)
    scene.outbox.answer(View(1, before.revision + 7, SlotTable(9, rows), [], []), kind=GetNewerView)
    scene.outbox.advance(0.1)
    view, *_later = scene.commit_all()
    assert view.revision == before.revision + 8
    assert [row.leader for row in view.table.slots] == [row.leader for row in before.table.slots]


def test_a_member_that_always_claims_more_than_it_was_sent_is_followed_once_in_a_lease() -> None:
    scene, eras = Scene(), set[str]()
    scene.cluster("data-1", "data-2", "session-1")
    for _ in range(100):
        view = scene.core.view.read()
        eras.add(view.era)
        scene.heartbeat("session-1", has=(view.revision + 1, view.table.epoch))
        for name in ("data-1", "data-2"):
            scene.heartbeat(name, has=(view.revision, view.table.epoch))
        scene.outbox.advance(0.1)
        if any(isinstance(each.message, GetNewerView) for each in scene.outbox.requests):
            scene.outbox.answer(Done(), kind=GetNewerView)
            scene.outbox.advance(0.01)
        scene.commit_all()
    assert len(eras) == 3, "the first one, and two in ten seconds of leases of five"


@pytest.mark.parametrize("names", [("data-1", "data-2"), ("data-2", "data-1")])
def test_members_of_two_histories_are_both_led_on_from_above_their_numbers(names: tuple[str, str]) -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2", "session-1")
    more_views, higher_table = names
    scene.heartbeat(more_views, has=(before.revision + 9, before.table.epoch + 1))
    scene.heartbeat(higher_table, has=(before.revision + 2, before.table.epoch + 6))
    scene.outbox.advance(0.1)
    while scene.outbox.requests:
        scene.outbox.answer(Done(), kind=GetNewerView)
        scene.outbox.advance(0.1)
    view = scene.commit_all()[-1]
    assert view.revision > before.revision + 9
    assert view.table.epoch > before.table.epoch + 6
    assert {slot.leader_epoch for slot in view.table.slots} == {view.table.epoch}


def test_a_new_meta_state_goes_on_from_the_table_that_members_have(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(slots=3)
    for name in ("data-1", "data-2", "data-3"):
        scene.connect(name)
    rows = (Slot(0, "data-1", 3, ("data-2",)), Slot(1, "data-2", 5, ("data-3",)), Slot(2, "data-9", 6, ("data-3",)))
    data = [scene.node(name) for name in ("data-1", "data-2", "data-3", "data-9")]
    for node in data[:3]:
        scene.heartbeat(node.name, has=(40, 9))
    scene.outbox.advance(0.1)
    scene.outbox.answer(View(1, 40, SlotTable(9, rows), data, []), kind=GetNewerView)
    view = scene.commit_all()[0]
    assert (view.revision, view.table.epoch) == (41, 10)
    assert [row.leader for row in view.table.slots] == ["data-1", "data-2", "data-9"], "it may be heard yet"
    assert {row.leader_epoch for row in view.table.slots} == {10}
    assert "by the table that data" in caplog.text
    assert not view.unclean
    for _ in range(8):
        scene.settle(("data-1", "data-2", "data-3"), 1.0)
    after = scene.core.view.read()
    assert after.table.slots[2].leader == "data-3"
    assert scene.core.counters()["slots_led_unclean"] == 1, "nobody knows who was in sync with the third slot's leader"
    assert "data-9 has left: not seen" in caplog.text


def test_a_member_that_is_heard_later_keeps_what_the_view_of_another_one_gives_it() -> None:
    """Found by a reader: the first data server that was heard after the loss got the slots of all others."""
    scene = Scene(slots=2)
    rows = (Slot(0, "data-1", 3, ("data-2",)), Slot(1, "data-2", 5, ("data-1",)))
    data = [scene.node(name) for name in ("data-1", "data-2", "data-3")]
    scene.connect("data-3")
    scene.heartbeat("data-3", has=(40, 9))
    scene.outbox.advance(0.1)
    scene.outbox.answer(View(1, 40, SlotTable(9, rows), data, []), kind=GetNewerView)
    scene.commit_all()
    for name in ("data-1", "data-2"):
        scene.connect(name)
        scene.heartbeat(name, has=(40, 9))
    scene.settle(("data-1", "data-2", "data-3"))
    assert [row.leader for row in scene.core.view.read().table.slots] == ["data-1", "data-2"]
    assert scene.core.counters()["slots_led_unclean"] == 0


def test_where_a_newer_view_appears_those_who_were_asked_are_asked_again() -> None:
    scene = Scene()
    scene.connect("data-1")
    scene.heartbeat("data-1", has=(40, 9))
    scene.outbox.advance(0.1)
    scene.heartbeat("data-1", has=(41, 9))
    scene.outbox.advance(1.1)
    assert [type(each.message) for each in scene.outbox.requests] == [GetNewerView] * 2
    assert scene.commit_all() == []


def test_a_session_server_of_the_view_of_a_member_may_live_too() -> None:
    scene = Scene(slots=2)
    scene.connect("data-1")
    scene.heartbeat("data-1", has=(41, 9))
    scene.outbox.advance(0.1)
    rows = (Slot(0, "data-1", 3, ("data-2",)), Slot(1, "data-2", 5, ("data-1",)))
    data = [scene.node(name) for name in ("data-1", "data-2")]
    view = View(1, 41, SlotTable(9, rows), data, [scene.node("session-9")])
    scene.outbox.answer(view, kind=GetNewerView)
    assert [each.name for each in scene.commit_all()[0].sessions] == ["session-9"]


def test_where_the_member_that_was_asked_first_has_gone_another_one_is_asked() -> None:
    scene = Scene(slots=2)
    rows = (Slot(0, "data-1", 3, ("data-2",)), Slot(1, "data-2", 5, ("data-3",)))
    data = [scene.node(name) for name in ("data-1", "data-2", "data-3")]
    for node in data:
        scene.connect(node.name)
        scene.heartbeat(node.name, has=(40, 9))
    scene.outbox.advance(0.1)
    scene.outbox.answer(None, RequestTimeout("no answer"), kind=GetNewerView)
    scene.outbox.advance(0.1)
    scene.outbox.answer(View(1, 40, SlotTable(9, rows), data, []), kind=GetNewerView)
    view = scene.commit_all()[0]
    assert [row.leader for row in view.table.slots] == ["data-1", "data-2"]
    assert not view.unclean


def test_a_leader_whose_process_was_replaced_does_not_lead_by_the_table_of_members() -> None:
    scene = Scene(slots=2)
    for name in ("data-1", "data-2"):
        scene.connect(name)
    rows = (Slot(0, "data-1", 3, ("data-2",)), Slot(1, "data-2", 5, ("data-1",)))
    former = replace(scene.node("data-1"), process_id="data-1@0")
    for name in ("data-1", "data-2"):
        scene.heartbeat(name, has=(40, 9))
    scene.outbox.advance(0.1)
    scene.outbox.answer(View(1, 40, SlotTable(9, rows), [former, scene.node("data-2")], []), kind=GetNewerView)
    view = scene.commit_all()[0]
    assert [row.leader for row in view.table.slots] == ["data-2", "data-2"]
    assert view.unclean == [0]


def test_a_new_meta_state_makes_its_first_table_above_what_members_have() -> None:
    scene = Scene()
    for name in ("data-1", "data-2"):
        scene.connect(name)
        scene.heartbeat(name, has=(40, 9))
    scene.outbox.advance(0.1)
    for _ in range(2):
        scene.outbox.answer(None, RequestTimeout("no answer"), kind=GetNewerView)
        scene.outbox.advance(0.1)
    assert scene.commit_all() == []
    scene.outbox.advance(5.0)
    view, *_later = scene.commit_all()
    assert (view.revision, view.table.epoch) == (41, 10)
    assert view.unclean == [row.id for row in view.table.slots], "copies may be anywhere, and nobody knows where"
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


def test_a_plan_that_fails_is_made_again_after_a_growing_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, tried, works = Scene(), list[float](), False
    scene.cluster("data-1", "data-2", "session-1")
    compute = scene.outbox.compute

    def late(work: Work, worked: Worked) -> None:
        tried.append(scene.outbox.time)
        if works:
            compute(work, worked)
        else:
            worked(None, RequestTimeout("it has not come to an end"))

    monkeypatch.setattr(scene.outbox, "compute", late)
    scene.core.closed(scene.peers["session-1"], "it died")
    for _ in range(500):
        scene.heartbeat("data-1")
        scene.heartbeat("data-2")
        scene.outbox.advance(0.2)
    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses == sorted(pauses)
    assert 1 <= pauses[0] < 2
    assert 30 < pauses[-1] < 64
    works = True
    for _ in range(400):
        scene.heartbeat("data-2")
        scene.heartbeat("session-1")
        scene.outbox.advance(0.2)
    view = scene.commit_all()[-1]
    assert {row.leader for row in view.table.slots} == {"data-2"}


def test_a_new_leader_goes_on_with_the_moves_that_the_former_one_has_begun() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2", "data-3", "session-1")
    names = ("data-1", "data-2", "data-3", "data-4")
    scene.connect("data-4")
    for _ in range(20):
        for name in names:
            scene.heartbeat(name, unready=("data-4",))
        scene.heartbeat("session-1")
        scene.outbox.advance(0.25)
        scene.commit_all()
    before = scene.core.view.read()
    learning = [row.id for row in before.table.slots if "data-4" in row.learners]
    assert learning
    assert {row.id for row in before.target} >= set(learning)
    scene.lead(9)
    for _ in range(20):
        for name in names:
            scene.heartbeat(name, unready=("data-4",))
        scene.heartbeat("session-1")
        scene.outbox.advance(0.25)
        for view in scene.commit_all():
            assert [row.id for row in view.table.slots if "data-4" in row.learners] == learning


@pytest.mark.parametrize("is_said", [False, True])
def test_it_is_said_that_servers_lead_which_were_not_in_sync_whoever_committed_that(
    is_said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    before = scene.cluster("data-1", "data-2", "session-1")
    view = replace(before, revision=before.revision + 1, unclean=[0])
    scene.election.state.store("view", msgspec.msgpack.encode(view), view.term)
    if is_said:  # the leader that committed it has said so, and goes on
        scene.outbox.advance(1.0)
        assert [each.unclean for each in scene.commit_all()] == [[]]
        caplog.clear()
    scene.lead(9)
    scene.heartbeat("session-1")
    scene.outbox.advance(1.0)
    scene.commit_all()
    assert ("ALARM: of 1 slots no server in sync lived" in caplog.text) is not is_said
    assert scene.core.counters()["slots_led_unclean"] == 1
    assert scene.core.view.read().unclean == []


def test_a_server_that_restarts_and_has_no_heir_does_not_wait_for_one() -> None:
    scene = Scene()
    scene.cluster("data-1", "session-1")
    for _ in range(3):
        granted = scene.heartbeat("data-1", stopping=Stopping.FOR_A_RESTART)
        scene.outbox.advance(0.5)
        scene.commit_all()
    assert isinstance(granted, LeaseGranted)
    assert granted.may_leave


def test_of_two_servers_that_restart_the_second_leads_on_until_the_first_is_back() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2", "session-1")

    def both(first: Stopping, life: int = 1) -> list[bool]:
        told = list[bool]()
        for _ in range(12):
            found = [
                scene.heartbeat("data-1", life, stopping=first),
                scene.heartbeat("data-2", stopping=Stopping.FOR_A_RESTART),
            ]
            told = [granted.may_leave for granted in found if isinstance(granted, LeaseGranted)]
            scene.heartbeat("session-1")
            scene.outbox.advance(0.25)
            scene.commit_all()
        return told

    assert both(Stopping.FOR_A_RESTART) == [True, False]
    assert {row.leader for row in scene.core.view.read().table.slots} == {"data-2"}
    scene.core.closed(scene.peers["data-1"], "it starts again")
    scene.connect("data-1", 2)
    assert both(Stopping.NO, 2) == [False, True]
    assert {row.leader for row in scene.core.view.read().table.slots} == {"data-1"}
    assert scene.core.counters()["slots_led_unclean"] == 0


def test_a_server_that_has_handed_over_everything_for_a_restart_gets_nothing_back_before_it_is_back() -> None:
    scene = Scene()
    scene.cluster("data-1", "data-2", "session-1")
    stopping = {"data-1": Stopping.NO, "data-2": Stopping.FOR_A_RESTART}
    for both in (False, True):
        if both:
            stopping["data-1"] = Stopping.FOR_A_RESTART
        for _ in range(12):
            granted = [scene.heartbeat(name, stopping=how) for name, how in stopping.items()]
            scene.heartbeat("session-1")
            scene.outbox.advance(0.25)
            scene.commit_all()
        assert [each.may_leave for each in granted if isinstance(each, LeaseGranted)] == [False, True]
        assert {row.leader for row in scene.core.view.read().table.slots} == {"data-1"}


def test_a_meta_state_keeps_its_era_and_gets_another_one_where_it_goes_on_above_what_members_have() -> None:
    scene = Scene()
    first = scene.cluster("data-1", "data-2").era
    assert first
    scene.lead(2)
    scene.settle(("data-1", "data-2"))
    scene.connect("data-3")
    scene.heartbeat("data-3")
    scene.settle(("data-1", "data-2", "data-3"))
    view = scene.core.view.read()
    assert (view.term, view.era) == (2, first)
    scene.heartbeat("data-1", has=(view.revision + 40, view.table.epoch + 40))
    newer = msgspec.structs.replace(view, revision=view.revision + 40)
    scene.outbox.answer(newer, kind=GetNewerView)
    scene.settle(("data-1", "data-2", "data-3"))
    after = scene.core.view.read()
    assert after.revision > view.revision + 40
    assert after.era not in ("", first)
    assert after.above == first, "also in the views after the first one of the era"
    assert not after.is_counted_anew(view)
    assert after.is_counted_anew(msgspec.structs.replace(view, era="that of a third state"))
    assert not after.is_counted_anew(msgspec.structs.replace(view, era=""))


def test_a_meta_state_without_a_era_gets_one_with_its_next_view() -> None:
    scene = Scene()
    view = scene.cluster("data-1", "data-2")
    older = msgspec.structs.replace(view, era="")
    scene.election.state.store("view", msgspec.msgpack.encode(older), older.term)
    scene.cluster("data-3")
    assert scene.core.view.read().era
