"""The core of a data server, alone; tests/servers/transcripts shows it with others."""

from __future__ import annotations

import math

import pytest
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import (
    Datum,
    ListServices,
    Services,
)
from slotreeve_protocol.meta_messages import (
    View,
)
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Changed,
    Compare,
    Compared,
    Confirm,
    DatumChange,
    DeclareInterest,
    Fetch,
    Follow,
    Known,
    Presence,
    SlotDifference,
    SlotInterest,
    SlotWrite,
    Write,
)
from slotreeve_servers.data.core import LINKS_AGAIN_SECONDS, DataCore
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.node.digests import led_digest

from tests.servers.core_scenes import META, SERVICE, node, record
from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver


class DataScene:
    """data-1 with two session servers, of which it knows by the view."""

    def __init__(self, **rules: float) -> None:
        self.outbox = RecordingOutbox()
        self.core = DataCore(self.outbox, node("data-1"), DataSettings.model_validate(rules), math.inf)
        self.core.start()
        self.sessions = {name: a_peer(name, Role.SESSION) for name in ("session-1", "session-2")}
        self.revision = 0

    def view(
        self,
        *rows: Slot,
        epoch: int = 1,
        sessions: tuple[str, ...] = ("session-1", "session-2"),
        missing: tuple[str, ...] = (),
        unclean: tuple[int, ...] = (),
    ) -> None:
        self.revision += 1
        data = [node("data-1"), node("data-2")]
        members = [node(name) for name in sessions]
        view = View(1, self.revision, SlotTable(epoch, rows), data, members, missing=[*missing], unclean=[*unclean])
        self.core.membership.handlers.messages[View](META, view)
        self.outbox.end_turn()

    def open(self, *names: str) -> None:
        for name in names:
            self.core.opened(self.sessions[name])

    def compared(self, *names: str, waited_us: int = 0) -> None:
        """These session servers answer that nothing differs; something of theirs has waited for so long."""
        for name in names:
            for request in [r for r in self.outbox.requests if r.peer is self.sessions[name]]:
                self.outbox.requests.remove(request)
                assert isinstance(request.message, Compare)
                slots = request.message.slots
                heads = [(s.slot, Access.ACCEPT, s.leader_epoch, True) for s in slots]
                answers = [SlotDifference(*head, {}, waited_us=waited_us) for head in heads]
                request.answered(Compared(answers), None)
                self.outbox.end_turn()

    def serving(self) -> DataScene:
        self.open("session-1", "session-2")
        self.view(Slot(0, "data-1", 1, ()))
        self.compared("session-1", "session-2")
        return self

    def write(
        self,
        *records: Publisher,
        gone: tuple[Publisher, ...] = (),
        lost: tuple[Publisher, ...] = (),
        epoch: int = 1,
        slot: int = 0,
    ) -> Access:
        message = Write([SlotWrite(slot, epoch, [*records], [*gone], [], [*lost])])
        reply = deliver(self.outbox, self.core.handlers, self.sessions["session-1"], message)
        assert isinstance(reply, Answers)
        return reply.answers[0].access

    def held(self) -> list[str]:
        return sorted(r.register_id for r in self.core.slots.held[0].store.records())


def test_a_led_slot_serves_once_every_session_server_was_compared_with() -> None:
    scene = DataScene()
    scene.open("session-1")
    scene.view(Slot(0, "data-1", 1, ()))
    scene.compared("session-1")
    assert scene.core.holdings().unsettled == [0]
    scene.open("session-2")
    scene.compared("session-2")
    assert scene.core.holdings().unsettled == []


def test_what_a_former_leader_stored_and_did_not_acknowledge_is_as_old_as_its_wait_at_the_session_server() -> None:
    scene = DataScene()
    scene.open("session-1", "session-2")
    scene.view(Slot(0, "data-2", 1, ("data-1",)))
    scene.core.slots.held[0].apply(SlotWrite(0, 1, [record()], [], []), 0.0)  # as the former leader streams it
    scene.view(Slot(0, "data-1", 2, ()), epoch=2)
    interest = DeclareInterest([SlotInterest(0, 2, [Known(SERVICE, 7, 7)], [])])
    deliver(scene.outbox, scene.core.handlers, scene.sessions["session-2"], interest)
    scene.compared("session-1", waited_us=3_000_000)
    scene.compared("session-2")

    def newest_change() -> DatumChange:
        sent = scene.outbox.messages(Changed, scene.sessions["session-2"])
        return [change for message in sent if isinstance(message, Changed) for change in message.changes][-1]

    assert newest_change().waited_us >= 3_000_000
    scene.write(record("another"), epoch=2)
    scene.outbox.end_turn()
    assert newest_change().waited_us < 1_000_000, "what comes later is not as old"


def test_a_session_process_that_is_back_before_its_registrations_were_searched_keeps_them() -> None:
    scene = DataScene().serving()
    scene.write(record())
    scene.core.closed(scene.sessions["session-1"], "cut")
    scene.view(Slot(0, "data-1", 1, ()), sessions=("session-2",))
    scene.open("session-1")
    scene.view(Slot(0, "data-1", 1, ()))
    scene.outbox.advance(20.0)
    assert scene.held() == ["r1"]


def test_a_migrating_slot_takes_writes_and_refuses_reads() -> None:
    scene = DataScene()
    scene.view(Slot(0, "data-1", 1, ()))
    assert scene.write(record()) is Access.MIGRATING
    reply = deliver(scene.outbox, scene.core.handlers, scene.sessions["session-1"], Fetch(0, 1, SERVICE))
    assert isinstance(reply, Answers)
    assert reply.answers[0].access is Access.MIGRATING
    assert scene.held() == ["r1"]


def test_writes_under_another_epoch_or_to_another_servers_slot_are_refused_and_not_stored() -> None:
    scene = DataScene().serving()
    assert scene.write(record(), epoch=2) is Access.MISMATCH
    assert scene.write(record(), slot=5) is Access.MOVED
    assert scene.held() == []


def test_reads_and_listings_show_what_was_written() -> None:
    scene = DataScene().serving()
    assert scene.write(record()) is Access.ACCEPT
    session = scene.sessions["session-1"]
    datum = deliver(scene.outbox, scene.core.handlers, session, Fetch(0, 1, SERVICE))
    assert isinstance(datum, Datum)
    assert datum.publishers == [record()]
    led = led_digest([(0, 1)])
    assert deliver(scene.outbox, scene.core.handlers, session, ListServices("s")) == Services({SERVICE: 1}, led=led)
    assert deliver(scene.outbox, scene.core.handlers, session, ListServices("x")) == Services({}, led=led)
    moved = deliver(scene.outbox, scene.core.handlers, session, Fetch(9, 1, SERVICE))
    assert isinstance(moved, Answers)
    assert moved.answers[0].access is Access.MOVED


def test_before_it_is_a_member_a_process_does_not_lead_what_its_former_life_led() -> None:
    scene = DataScene()
    former = Node("data-1", Role.DATA, "data-1:1", "data-1@0")
    view = View(1, 1, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [former], [])
    scene.core.membership.handlers.messages[View](META, view)
    assert scene.core.slots.held == {}
    scene.revision = 1
    scene.view(Slot(0, "data-1", 2, ()), epoch=2)
    assert list(scene.core.slots.held) == [0]


def test_once_another_process_of_its_name_is_a_member_a_process_holds_nothing_of_that_one() -> None:
    scene = DataScene().serving()
    assert [slot.slot.id for slot in scene.core.slots.led()] == [0]
    other = Node("data-1", Role.DATA, "data-1:2", "data-1@2")
    view = View(1, 50, SlotTable(50, (Slot(0, "data-1", 50, ()),)), [other], [])
    scene.core.membership.handlers.messages[View](META, view)
    assert list(scene.core.slots.led()) == []
    nobody = View(1, 51, SlotTable(51, (Slot(0, "data-1", 50, ()),)), [], [])
    scene.core.membership.handlers.messages[View](META, nobody)
    assert list(scene.core.slots.led()) == [], "it is no member again by a view without either"


def test_the_records_of_a_session_process_that_does_not_come_back_expire_after_the_grace() -> None:
    scene = DataScene(session_grace_seconds=3.0).serving()
    scene.write(record(), record("r2", "session-2@1"))
    scene.core.closed(scene.sessions["session-1"], "killed")
    scene.view(Slot(0, "data-1", 1, ()), sessions=("session-2",))
    scene.outbox.advance(2.5)
    assert scene.held() == ["r1", "r2"]
    scene.outbox.advance(1.0)
    for request in scene.outbox.requests.copy():
        if request.peer is scene.sessions["session-2"] and not isinstance(request.message, Compare):
            request.answered(Answers([]), None)
    scene.outbox.advance(1.0)
    assert scene.held() == ["r2"]


def test_a_leader_without_a_copy_takes_what_a_lost_client_published_from_the_session_server_that_reports_it() -> None:
    scene = DataScene()
    scene.open("session-1", "session-2")
    scene.view(Slot(0, "data-1", 1, ()))
    deliver(scene.outbox, scene.core.handlers, scene.sessions["session-2"], Presence(["client"], []))
    lost, known = record("client-1"), record("client-2")
    scene.write(known)
    before = scene.core.slots.held[0].writes
    scene.write(lost=(lost, known))
    assert scene.held() == ["client-1", "client-2"]
    assert scene.core.slots.held[0].writes == before + 1, "what it has is not stored again"
    scene.compared("session-1", "session-2")
    scene.outbox.advance(10.0)
    assert scene.held() == ["client-1", "client-2"], "its client sends everything again"
    deliver(scene.outbox, scene.core.handlers, scene.sessions["session-2"], Presence([], ["client"]))
    scene.outbox.advance(0.3)
    for request in [each for each in scene.outbox.requests if isinstance(each.message, Confirm)]:
        request.answered(Answers([]), None)
    scene.outbox.advance(0.3)
    assert scene.held() == []
    scene.write(lost=(lost,))
    assert scene.held() == [], "what has ended does not come back with a late report"


def test_a_slot_does_not_wait_for_one_silent_session_server_for_ever_but_for_two() -> None:
    scene = DataScene(emergency_seconds=5.0)
    scene.view(Slot(0, "data-1", 1, ()))
    scene.outbox.advance(20.0)
    assert scene.core.holdings().unsettled == [0]
    scene.open("session-1")
    scene.compared("session-1")
    scene.outbox.advance(1.0)
    assert scene.core.slots.unsettled() == []
    assert scene.core.counters()["slots_served_incomplete"] == 1
    assert scene.core.holdings().unsettled == [0], "the balancer must not move it to a leader that would wait as long"
    scene.open("session-2")
    scene.compared("session-2")
    assert scene.core.holdings().unsettled == []


def test_a_slot_that_serves_after_the_grace_tells_a_session_server_that_is_no_member_and_was_compared_with() -> None:
    scene = DataScene(session_grace_seconds=5.0, emergency_seconds=0.0)
    scene.view(Slot(0, "data-1", 1, ()), sessions=("session-1",))
    scene.open("session-2")
    scene.compared("session-2")
    wants = DeclareInterest([SlotInterest(0, 1, [Known(SERVICE, 0, 0)], [])])
    deliver(scene.outbox, scene.core.handlers, scene.sessions["session-2"], wants)
    scene.outbox.advance(6.0)
    assert scene.outbox.messages(Changed, scene.sessions["session-2"]) == []
    scene.open("session-1")
    scene.compared("session-1")
    scene.outbox.end_turn()
    assert scene.core.slots.unsettled() == []
    assert len(scene.outbox.messages(Changed, scene.sessions["session-2"])) == 1


def missing_session_2(scene: DataScene, *rows: Slot, epoch: int) -> None:
    scene.view(*rows, epoch=epoch, sessions=("session-1",), missing=("session-2@1",))
    scene.compared("session-1")


def test_a_slot_without_any_copy_gives_a_missing_session_server_the_time_to_link() -> None:
    scene = DataScene()
    scene.open("session-1")
    missing_session_2(scene, Slot(0, "data-1", 3, ()), epoch=3)
    assert scene.core.slots.unsettled() == [0]
    scene.open("session-2")
    scene.outbox.advance(LINKS_AGAIN_SECONDS + 0.5)
    assert scene.core.slots.unsettled() == [0], "now that it is linked, its records are waited for"
    scene.compared("session-2")
    assert scene.core.slots.unsettled() == []


def test_it_serves_without_one_that_does_not_link() -> None:
    scene = DataScene()
    scene.open("session-1")
    missing_session_2(scene, Slot(0, "data-1", 3, ()), epoch=3)
    scene.outbox.advance(LINKS_AGAIN_SECONDS - 0.5)
    assert scene.core.slots.unsettled() == [0]
    scene.outbox.advance(1.0)
    assert scene.core.slots.unsettled() == []


def test_a_slot_of_which_a_copy_is_left_waits_for_no_missing_session_server() -> None:
    scene = DataScene().serving()
    missing_session_2(scene, Slot(0, "data-1", 3, ()), epoch=3)
    scene.core.closed(scene.sessions["session-2"], "cut")
    assert scene.core.slots.unsettled() == []


@pytest.mark.parametrize(
    ("views_missed", "unclean", "unsettled"),
    [(0, (), []), (0, (0,), [0]), (1, (), [0])],
    ids=["by a leader that lives", "because nobody in sync lives", "by a view of the same table that it missed"],
)
def test_a_learner_that_is_made_the_leader_waits_for_a_missing_session_server_where_it_may_lack_something(
    views_missed: int, unclean: tuple[int, ...], unsettled: list[int]
) -> None:
    scene = DataScene()
    scene.open("session-1")
    scene.view(Slot(0, "data-2", 1, (), ("data-1",)), sessions=("session-1",), missing=("session-2@1",))
    scene.revision += views_missed
    row = Slot(0, "data-1", 2, ("data-2",))
    scene.view(row, epoch=2, sessions=("session-1",), missing=("session-2@1",), unclean=unclean)
    scene.compared("session-1")
    assert scene.core.slots.unsettled() == unsettled


def test_followed_slots_are_copied_from_their_leader_and_its_links_are_kept() -> None:
    scene = DataScene()
    scene.view(Slot(0, "data-2", 1, ("data-1",)), Slot(1, "data-1", 1, ()))
    (links,) = scene.outbox.take("links")
    assert links.what == {"data-2": "data-2:1"}
    leader = a_peer("data-2", Role.DATA)
    scene.core.leaders.opened(leader)
    follow = next(r.message for r in scene.outbox.requests if r.peer is leader)
    assert isinstance(follow, Follow)
    assert [slot.slot for slot in follow.slots] == [0]


def test_every_slot_is_compared_again_every_few_seconds_unless_departures_are_pending() -> None:
    scene = DataScene(repair_seconds=6.0).serving()
    scene.outbox.requests.clear()
    scene.outbox.advance(6.1)
    assert sum(isinstance(r.message, Compare) for r in scene.outbox.requests) == 2
    scene.compared("session-1", "session-2")
    scene.core.slots.held[0].leaving = 1
    scene.outbox.advance(7.0)
    assert [r for r in scene.outbox.requests if isinstance(r.message, Compare)] == []


def test_counters_of_a_data_server_say_what_it_holds_and_did() -> None:
    scene = DataScene().serving()
    scene.write(record())
    counters = scene.core.counters()
    assert (counters["slots_led"], counters["registrations"], counters["session_repairs"]) == (1, 1, 0)


def test_a_session_server_that_comes_to_a_slot_that_serves_gets_what_it_wants_once_it_was_compared() -> None:
    scene = DataScene()
    scene.open("session-1")
    scene.view(Slot(0, "data-1", 1, ()), sessions=("session-1",))
    scene.compared("session-1")
    scene.write(record("r1"))
    scene.open("session-2")
    wants = DeclareInterest([SlotInterest(0, 1, [Known(SERVICE, 0, 0)], [])])
    deliver(scene.outbox, scene.core.handlers, scene.sessions["session-2"], wants)
    assert scene.outbox.messages(Changed, scene.sessions["session-2"]) == [], "its own may be missing"
    scene.compared("session-2")
    (told,) = scene.outbox.messages(Changed, scene.sessions["session-2"])
    assert isinstance(told, Changed)
    assert [one.register_id for change in told.changes for one in change.changed] == ["r1"]
