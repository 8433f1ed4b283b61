"""A slot leader's work with leases, on a data server's core without connections."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.errors import RequestTimeout
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.lease_messages import (
    KeepLeases,
    KeptLeases,
    LeaseIds,
    LeasesKept,
    LeaseTerms,
    SlotLeases,
)
from slotreeve_protocol.leases import lease_record, ttl_seconds_of
from slotreeve_protocol.meta_messages import Heartbeat, LeaseGranted, View
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Compare,
    Compared,
    Confirm,
    Follow,
    Replicate,
    SlotAnswer,
    SlotDifference,
    SlotDigests,
    SlotEpoch,
    SlotWrite,
)
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.endings.ending import DRIFT, WAITING, HeldLease, lease_in
from slotreeve_servers.data.replication.confirmations import FollowerConfirmations
from slotreeve_servers.data.replication.following import FollowedLeaders
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.node.outbox import Request

from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver
from tests.servers.world import node_of

META, SESSION = a_peer("meta-1", Role.META), a_peer("session-1", Role.SESSION)
FOLLOWER = a_peer("data-2", Role.DATA)
BEAT = 1.0


class Leader:
    """A data server that leads slot 0, for followers or for none, and is confirmed at every heartbeat."""

    def __init__(self, *followers: str, rules: DataSettings | None = None) -> None:
        self.outbox = RecordingOutbox()
        self.core = DataCore(self.outbox, node_of("data-1"), rules or DataSettings(), BEAT)
        self.is_granted = True
        self.followers = followers
        self.core.start()
        self.core.membership.opened(META)
        self.outbox.end_turn()
        self.core.opened(SESSION)
        self.lead(1)

    def lead(self, epoch: int) -> None:
        table = SlotTable(epoch, (Slot(0, "data-1", epoch, self.followers),))
        names = [node_of(name) for name in ("data-1", *self.followers)]
        deliver(self.outbox, self.core.membership.handlers, META, View(1, epoch, table, names, [node_of("session-1")]))
        self.pass_time(0.1)

    def pass_time(self, seconds: float) -> None:
        """Let time pass; heartbeats are granted meanwhile."""
        end = self.outbox.time + seconds
        while True:
            while self.is_granted and any(isinstance(r.message, Heartbeat) for r in self.outbox.requests):
                self.outbox.answer(LeaseGranted(1, 5.0, None), kind=Heartbeat)
            self.answer_session()
            if self.outbox.time >= end:
                return
            self.outbox.advance(min(0.1, end - self.outbox.time))

    def answer_session(self) -> None:
        """session-1 has nothing on its way, and no records."""
        while waiting := [r for r in self.outbox.requests if r.peer is SESSION]:
            request = waiting[0]
            reply: Message = Answers([])
            if isinstance(request.message, Compare):
                asked = [(one.slot, Access.ACCEPT, one.leader_epoch) for one in request.message.slots]
                reply = Compared([SlotDifference(*head, True, {}) for head in asked])
            self.outbox.requests.remove(request)
            request.answered(reply, None)
            self.outbox.end_turn()

    def keep(
        self,
        registered: list[LeaseTerms] | None = None,
        renewed: list[str] | None = None,
        ended: list[str] | None = None,
        epoch: int = 1,
    ) -> None:
        self.outbox.take()
        batch = SlotLeases(0, epoch, registered or [], {"s": renewed} if renewed else {}, {"s": ended} if ended else {})
        deliver(self.outbox, self.core.handlers, SESSION, KeepLeases([batch]))

    def answer(self) -> KeptLeases | None:
        """The answer that was given last."""
        answers = [reply for reply in self.outbox.messages(LeasesKept, SESSION) if isinstance(reply, LeasesKept)]
        return answers[-1].answers[0] if answers else None

    @property
    def leases(self) -> set[str]:
        records = self.core.slots.held[0].store.records()
        return {record.register_id.rpartition("-")[0] for record in records}


def terms(lease_id: str, ttl: float = 10.0) -> LeaseTerms:
    return LeaseTerms("s", lease_id, "", (b"x",), round(1000 * ttl))


def kept(unknown: LeaseIds | None = None) -> KeptLeases:
    return KeptLeases(0, Access.ACCEPT, 1, unknown or {})


def test_a_lease_is_registered_renewed_and_ended() -> None:
    leader = Leader()
    leader.keep([terms("a"), terms("b")])
    assert (leader.answer(), leader.leases) == (kept(), {"a", "b"})
    leader.keep(renewed=["a", "c"], ended=["b", "d"])
    assert (leader.answer(), leader.leases) == (kept({"s": ["c", "d"]}), {"a"})
    leader.keep(renewed=["b"])
    assert leader.answer() == kept({"s": ["b"]})


def test_it_ends_after_its_time_and_within_a_heartbeat_and_some_more() -> None:
    leader = Leader()
    leader.keep([terms("a")])
    leader.pass_time(10.0)
    assert leader.leases == {"a"}
    leader.pass_time(0.2 + BEAT + 0.75)
    assert (leader.leases, leader.core.counters()["leases_expired"]) == (set(), 1)


def test_nothing_ends_and_nothing_is_carried_out_while_the_meta_leader_does_not_confirm_this_server() -> None:
    leader = Leader()
    leader.keep([terms("a")])
    leader.is_granted = False
    leader.pass_time(60.0)
    assert leader.leases == {"a"}
    leader.keep([terms("b")], renewed=["a"], ended=["a"])
    assert (leader.answer(), leader.leases) == (KeptLeases(0, Access.MOVED, 1, {}), {"a"})
    leader.is_granted = True
    leader.pass_time(10.2 + 2.5)
    assert leader.leases == set()


def test_after_a_time_without_a_meta_leader_each_lease_has_its_whole_time_because_nobody_could_renew() -> None:
    leader = Leader()
    leader.keep([terms("a"), terms("b")])
    leader.is_granted = False
    leader.pass_time(30.0)
    leader.is_granted = True
    leader.pass_time(5.0)
    leader.keep(renewed=["a"])
    assert leader.leases == {"a", "b"}
    leader.pass_time(4.9)
    assert leader.leases == {"a", "b"}
    leader.pass_time(2.5)
    assert leader.leases == {"a"}


def test_a_confirmation_that_was_asked_for_before_the_end_of_the_time_ends_nothing() -> None:
    leader = Leader()
    leader.keep([terms("a")])
    leader.pass_time(9.9)
    leader.is_granted = False
    leader.pass_time(2.5)  # its lease from the meta leader still lasts
    assert leader.core.membership.has_lease
    assert leader.leases == {"a"}


def test_the_time_in_which_the_server_was_frozen_does_not_count() -> None:
    leader = Leader()
    leader.keep([terms("a")])
    leader.pass_time(5.0)
    leader.outbox.unattended += 100.0
    leader.outbox.time += 100.0
    leader.pass_time(4.9)
    assert leader.leases == {"a"}
    leader.pass_time(3.0)
    assert leader.leases == set()


def test_a_renewal_that_was_not_read_yet_counts() -> None:
    leader = Leader()
    leader.keep([terms("a")])
    leader.pass_time(9.9)
    waiting = leader.outbox.when_read
    calls: list[object] = []
    leader.outbox.when_read = calls.append  # type: ignore[method-assign, assignment]
    leader.pass_time(2.5)
    assert calls
    leader.keep(renewed=["a"])
    assert callable(calls[0])
    calls[0]()
    leader.outbox.when_read = waiting  # type: ignore[method-assign]
    leader.pass_time(9.9)
    assert leader.leases == {"a"}


def test_a_slot_that_is_led_anew_gives_each_lease_its_whole_time_and_the_lease_of_a_former_leader() -> None:
    leader = Leader()
    leader.keep([terms("a")])
    leader.pass_time(9.0)
    leader.lead(2)
    leader.pass_time(10.0 + 3 * BEAT)
    assert leader.leases == {"a"}
    leader.pass_time(3.0)
    assert leader.leases == set()


def test_an_answer_waits_for_the_followers() -> None:
    leader = Leader("data-2")
    leader.core.opened(FOLLOWER)
    deliver(leader.outbox, leader.core.handlers, FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    leader.keep([terms("a")])
    assert leader.answer() is None
    sent = [effect.what for effect in leader.outbox.effects if effect.peer is FOLLOWER]
    assert [type(message) for message in sent] == [Replicate, Confirm]
    leader.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]), kind=Confirm)
    assert leader.answer() == kept()
    leader.keep(renewed=["a"])
    assert leader.answer() == kept()  # renewals are not replicated


def test_what_was_stored_is_not_acknowledged_where_a_table_of_the_same_turn_has_another_leader() -> None:
    leader = Leader()
    message = KeepLeases([SlotLeases(0, 1, [terms("a")], {}, {})])
    leader.core.handlers.later[KeepLeases](SESSION, message, Request(SESSION, 1))
    table = SlotTable(2, (Slot(0, "data-2", 2, ("data-1",)),))
    view = View(1, 2, table, [node_of("data-1"), node_of("data-2")], [node_of("session-1")])
    deliver(leader.outbox, leader.core.membership.handlers, META, view)
    assert leader.answer() == KeptLeases(0, Access.MOVED, 0, {})


def test_a_renewal_is_not_acknowledged_before_the_followers_have_the_lease() -> None:
    leader = Leader("data-2")
    leader.core.opened(FOLLOWER)
    deliver(leader.outbox, leader.core.handlers, FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    leader.keep([terms("a")])
    leader.keep(renewed=["a"])
    assert leader.answer() is None
    leader.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]), kind=Confirm)
    assert leader.answer() is not None
    leader.outbox.take()
    leader.outbox.answer(Answers([SlotAnswer(0, Access.MISMATCH, 1)]), kind=Confirm)
    assert leader.answer() == KeptLeases(0, Access.MOVED, 0, {})
    leader.keep(renewed=["a"])
    assert leader.answer() == kept(), "the first question came back, and nothing was registered since"


def test_the_first_renewal_under_a_new_leader_waits_for_the_followers() -> None:
    leader = Leader("data-2")
    leader.core.opened(FOLLOWER)
    leader.core.slots.held[0].apply(SlotWrite(0, 1, [lease_record("a", "s", 5, 5_000, "", (b"x",))], [], []), 0.0)
    deliver(leader.outbox, leader.core.handlers, FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    leader.keep(renewed=["a"])
    assert leader.answer() is None
    leader.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]), kind=Confirm)
    assert leader.answer() == kept()


@pytest.mark.parametrize("access", [Access.MOVED, Access.MISMATCH, None])
def test_what_a_follower_does_not_have_is_not_acknowledged(access: Access | None) -> None:
    leader = Leader("data-2")
    leader.core.opened(FOLLOWER)
    deliver(leader.outbox, leader.core.handlers, FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    leader.keep([terms("a")])
    if access is None:
        leader.outbox.answer(None, RequestTimeout("it is frozen"), kind=Confirm)
    else:
        leader.outbox.answer(Answers([SlotAnswer(0, access, 2)]), kind=Confirm)
    assert leader.answer() == KeptLeases(0, Access.MOVED, 0, {})


def test_a_renewal_waits_for_a_lease_that_a_follower_did_not_have_when_it_was_asked() -> None:
    leader = Leader("data-2")
    leader.core.opened(FOLLOWER)
    deliver(leader.outbox, leader.core.handlers, FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    leader.keep([terms("a")])
    leader.outbox.answer(Answers([SlotAnswer(0, Access.MISMATCH, 1)]), kind=Confirm)
    leader.keep(renewed=["a"])
    assert leader.answer() is None
    leader.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]), kind=Confirm)
    assert leader.answer() == kept()


def test_a_slot_that_others_lead_takes_no_leases() -> None:
    leader = Leader("data-2")
    rows = (Slot(0, "data-2", 2, ("data-1",)), Slot(1, "data-2", 2, ()))
    nodes = [node_of("data-1"), node_of("data-2")]
    deliver(leader.outbox, leader.core.membership.handlers, META, View(1, 2, SlotTable(2, rows), nodes, []))
    batches = [SlotLeases(number, 2, [terms("a")], {}, {}) for number in (0, 1)]
    deliver(leader.outbox, leader.core.handlers, SESSION, KeepLeases(batches))
    [reply] = leader.outbox.messages(LeasesKept, SESSION)
    assert isinstance(reply, LeasesKept)
    assert [(answer.slot, answer.access) for answer in reply.answers] == [(0, Access.MOVED), (1, Access.MOVED)]
    assert leader.leases == set()


def test_registrations_of_a_service_that_has_leases_too_are_none() -> None:
    leader = Leader()
    leader.keep([terms("a")])
    published = Publisher("client-1", "s", 1, 1, SESSION.process_id, "", (b"x",))
    leader.core.slots.held[0].store.put(published, 0.0)
    leader.lead(2)
    assert leader.core.counters()["leases"] == 1
    leader.pass_time(60.0)
    assert leader.leases == {"client"}


def test_without_a_follower_that_the_table_names_nothing_is_acknowledged() -> None:
    leader = Leader("data-2")
    leader.keep([terms("a")])
    assert leader.answer() == KeptLeases(0, Access.MOVED, 0, {})
    leader.keep(ended=["a"])
    assert leader.answer() == KeptLeases(0, Access.MOVED, 0, {})


def test_a_follower_confirms_what_it_follows_in_sync_under_the_same_leader_epoch() -> None:
    outbox = RecordingOutbox()
    core = DataCore(outbox, node_of("data-2"), DataSettings(), math.inf)
    leader = a_peer("data-1", Role.DATA)
    table = SlotTable(
        5, (Slot(0, "data-1", 4, ("data-2",)), Slot(1, "data-2", 5, ()), Slot(2, "data-3", 5, ("data-2",)))
    )
    deliver(outbox, core.membership.handlers, META, View(1, 1, table, [node_of("data-2")], []))
    leaders: FollowedLeaders = core.leaders
    asked = Confirm([SlotEpoch(0, 4), SlotEpoch(0, 3), SlotEpoch(1, 5), SlotEpoch(2, 5), SlotEpoch(9, 5)])

    def accesses() -> list[Access]:
        reply = deliver(outbox, leaders.handlers, leader, asked)
        assert isinstance(reply, Answers)
        return [answer.access for answer in reply.answers]

    assert accesses() == [Access.MOVED] * 5
    core.slots.held[0].synced = core.slots.held[2].synced = True
    assert accesses() == [Access.ACCEPT, Access.MISMATCH, Access.MOVED, Access.MOVED, Access.MOVED]


def test_one_question_a_turn_serves_all_who_wait() -> None:
    leader = Leader("data-2")
    leader.core.opened(FOLLOWER)
    deliver(leader.outbox, leader.core.handlers, FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    leader.outbox.take()
    confirmations = FollowerConfirmations(leader.outbox, leader.core._streams, leader.core.in_sync)
    answers: list[set[int]] = []
    slot = leader.core.slots.held[0]
    confirmations.confirm([slot], answers.append)
    confirmations.confirm([slot], answers.append)
    leader.outbox.end_turn()
    assert leader.outbox.messages(Confirm) == [Confirm([SlotEpoch(0, 1)])]
    leader.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]), kind=Confirm)
    assert answers == [set(), set()]


def test_slots_with_different_followers_are_confirmed_each_by_its_own() -> None:
    outbox, third = RecordingOutbox(), a_peer("data-3", Role.DATA)
    core = DataCore(outbox, node_of("data-1"), DataSettings(), math.inf)
    table = SlotTable(1, (Slot(0, "data-1", 1, ("data-2",)), Slot(1, "data-1", 1, ("data-3",))))
    names = [node_of(name) for name in ("data-1", "data-2", "data-3")]
    deliver(outbox, core.membership.handlers, META, View(1, 1, table, names, []))
    for peer, number in ((FOLLOWER, 0), (third, 1)):
        core.opened(peer)
        deliver(outbox, core.handlers, peer, Follow([SlotDigests(number, 1, {})]))
    confirmations = FollowerConfirmations(outbox, core._streams, core.in_sync)
    answers: list[set[int]] = []
    confirmations.confirm([core.slots.held[0], core.slots.held[1]], answers.append)
    outbox.end_turn()
    outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]), kind=Confirm)
    assert answers == []
    outbox.answer(Answers([SlotAnswer(1, Access.MISMATCH, 1)]), kind=Confirm)
    assert answers == [{1}]


def test_an_end_waits_for_the_followers_and_what_was_written_after_the_question_waits_for_the_next_one() -> None:
    leader = Leader("data-2")
    leader.core.opened(FOLLOWER)
    deliver(leader.outbox, leader.core.handlers, FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    leader.outbox.end_turn()
    has_everything = Answers([SlotAnswer(0, Access.ACCEPT, 1)])
    leader.keep([terms("a"), terms("b")])
    leader.outbox.answer(has_everything, kind=Confirm)
    assert leader.answer() == kept()
    leader.keep(ended=["a"])
    assert leader.answer() is None, "the follower may not have it yet"
    leader.keep(ended=["b"])
    leader.outbox.answer(has_everything, kind=Confirm)
    assert leader.answer() == kept()
    leader.keep(renewed=["b"])
    assert leader.answer() is None, "the end of it is not confirmed yet"
    leader.outbox.answer(has_everything, kind=Confirm)
    leader.outbox.answer(has_everything, kind=Confirm)
    assert leader.answer() == kept({"s": ["b"]})


def test_what_is_confirmed_once_the_leader_has_no_lease_any_more_is_not_acknowledged() -> None:
    leader = Leader("data-2")
    leader.core.opened(FOLLOWER)
    deliver(leader.outbox, leader.core.handlers, FOLLOWER, Follow([SlotDigests(0, 1, {})]))
    leader.pass_time(1.0)
    leader.is_granted = False
    leader.outbox.advance(2.5)
    leader.keep([terms("a")])
    leader.outbox.advance(1.0)
    table = SlotTable(2, (Slot(0, "data-1", 1, (), ("data-2",)),))
    leader.core.membership.learn(View(1, 2, table, [node_of("data-1"), node_of("data-2")], []))
    leader.outbox.end_turn()
    answer = leader.answer()
    assert answer is not None
    assert answer.access is Access.MOVED


def test_what_was_refused_for_lack_of_a_lease_is_granted_anew_however_late_the_answer_before_was() -> None:
    leader = Leader()
    leader.pass_time(1.0)
    leader.is_granted = False
    while not [r for r in leader.outbox.requests if isinstance(r.message, Heartbeat)]:
        leader.outbox.advance(0.1)
    leader.outbox.advance(1.9)
    leader.outbox.answer(LeaseGranted(1, 5.0, None), kind=Heartbeat)
    leader.outbox.advance(1.5)
    assert not leader.core.membership.has_lease
    before = leader.outbox.attended()
    leader.outbox.answer(LeaseGranted(1, 5.0, None), kind=Heartbeat)
    assert leader.core.leases.regained_at >= before


def test_every_slot_is_compared_over_each_new_link_of_a_session_process() -> None:
    leader = Leader()
    assert SESSION.process_id in leader.core.slots.held[0].compared
    leader.outbox.requests.clear()
    leader.core.opened(newer := a_peer("session-1", Role.SESSION))
    leader.outbox.end_turn()
    asked = [r.message for r in leader.outbox.requests if r.peer is newer and isinstance(r.message, Compare)]
    assert [[slot.slot for slot in message.slots] for message in asked] == [[0]], (
        "what was sent may be lost with a link"
    )


def test_an_older_connection_of_a_session_process_ends_when_it_connects_again() -> None:
    leader = Leader()
    leader.outbox.take()
    leader.core.opened(a_peer("session-1", Role.SESSION))
    assert [e.peer for e in leader.outbox.effects if e.kind == "closed"] == [SESSION]


class LeaderOfTwoFollowed:
    """data-1 leads slot 0, and waits until data-2 and data-3, who follow it, say that they have everything."""

    def __init__(self) -> None:
        self.outbox = RecordingOutbox()
        self.core = DataCore(self.outbox, node_of("data-1"), DataSettings(), math.inf)
        self.view(1, Slot(0, "data-1", 1, ("data-2", "data-3")))
        for peer in (FOLLOWER, a_peer("data-3", Role.DATA)):
            self.core.opened(peer)
            deliver(self.outbox, self.core.handlers, peer, Follow([SlotDigests(0, 1, {})]))
        self.answers: list[set[int]] = []
        self.core.confirmations.confirm([self.core.slots.held[0]], self.answers.append)
        self.outbox.end_turn()

    def view(self, revision: int, slot: Slot) -> None:
        nodes = [node_of(name) for name in ("data-1", "data-2", "data-3")]
        deliver(
            self.outbox, self.core.membership.handlers, META, View(1, revision, SlotTable(revision, (slot,)), nodes, [])
        )

    def answer(self, access: Access = Access.ACCEPT) -> None:
        """The follower that was asked first, and has not answered, does."""
        self.outbox.answer(Answers([SlotAnswer(0, access, 1)]), kind=Confirm)


def test_nobody_waits_for_a_follower_that_a_newer_table_has_made_a_learner() -> None:
    leader = LeaderOfTwoFollowed()
    leader.answer()
    assert leader.answers == []
    leader.view(2, Slot(0, "data-1", 1, ("data-2",), ("data-3",)))
    assert leader.answers == [set()]
    leader.answer(Access.MISMATCH)
    assert leader.answers == [set()]


def test_a_newer_table_does_not_answer_for_a_follower_that_it_keeps() -> None:
    leader = LeaderOfTwoFollowed()
    leader.view(2, Slot(0, "data-1", 1, ("data-2",), ("data-3",)))
    assert leader.answers == []
    leader.answer(Access.MISMATCH)
    assert leader.answers == [{0}]


@pytest.mark.parametrize("slot", [Slot(0, "data-2", 2, ("data-1",)), Slot(0, "data-1", 2, ("data-2",), ("data-3",))])
def test_what_waits_under_another_leadership_is_not_acknowledged(slot: Slot) -> None:
    leader = LeaderOfTwoFollowed()
    leader.view(2, slot)
    assert leader.answers == [{0}]


def test_a_version_is_greater_than_all_before_also_after_the_tombstones_are_forgotten() -> None:
    leader = Leader()
    store = leader.core.slots.held[0].store
    versions = []
    for _ in range(3):
        leader.keep([terms("a")])
        leader.keep([terms("a")])
        versions += [record.version for record in store.records()]
        leader.keep(ended=["a"])
        versions += [tombstone.version for tombstone, _ in store.tombstones.values()]
        store.compact(math.inf)
    assert versions == sorted(set(versions))
    assert len(versions) == 6


def test_a_lease_is_not_taken_for_a_registration_of_a_session_server_that_is_gone() -> None:
    leader = Leader()
    leader.keep([terms("a", 3600)])
    leader.core.lost_clients.adopt(leader.core.slots.held[0])
    leader.pass_time(60.0)
    assert (leader.leases, leader.core.lost_clients.gone) == ({"a"}, set())


def test_of_few_leases_nobody_need_be_heard_and_of_many_somebody_must() -> None:
    for count, left in ((64, 0), (65, 65)):
        leader = Leader()
        leader.keep([terms(f"l{n}") for n in range(count)])
        leader.pass_time(20.0)
        assert len(leader.leases) == left


def test_very_many_leases_are_taken_over_and_ended_in_pieces() -> None:
    rules = DataSettings(brake_few=10_000)
    leader = Leader(rules=rules)
    leader.keep([terms(f"l{n}") for n in range(5_000)])
    leader.lead(2)
    assert leader.core.endings.count == 5_000
    leader.pass_time(16.0)
    assert (leader.leases, leader.core.endings.rounds.expired, leader.core.endings.count) == (set(), 5_000, 0)


def test_the_time_to_live_is_in_the_record_that_followers_copy() -> None:
    record = lease_record("a", "s", 1, 2_500, "", (b"x",))
    assert ttl_seconds_of(record) == 2.5
    write = SlotWrite(0, 1, [record], [], [])
    leader = Leader()
    leader.core.slots.held[0].apply(write, 0.0)
    assert ttl_seconds_of(next(iter(leader.core.slots.held[0].store.records()))) == 2.5


@pytest.mark.parametrize("later", [None, True])
def test_ends_stay_frozen_until_a_meta_leader_that_knows_the_order_says_otherwise(later: bool | None) -> None:
    leader = Leader()
    leader.keep([terms("a")])

    def pass_time(seconds: int, frozen: bool | None) -> None:
        for _ in range(10 * seconds):
            while any(isinstance(r.message, Heartbeat) for r in leader.outbox.requests):
                leader.outbox.answer(LeaseGranted(1, 5.0, None, frozen=frozen), kind=Heartbeat)
            leader.answer_session()
            leader.outbox.advance(0.1)

    pass_time(2, True)
    pass_time(200, later)
    assert leader.leases == {"a"}
    pass_time(5, False)
    assert leader.leases == set()


# --- against a twin --------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(10, 60))
def test_leases_end_exactly_when_a_dictionary_of_deadlines_says_so(seed: int, steps: int) -> None:
    """The twin keeps when each lease ends at the earliest; nothing ends early, and nothing much later."""
    rng, leader = random.Random(seed), Leader()
    ends: dict[str, tuple[float, float]] = {}
    for _ in range(steps):
        lease_id, now = rng.choice("abcd"), leader.outbox.time
        is_known = lease_id in leader.leases
        match rng.choice(["register", "renew", "end", "pass", "pass"]):
            case "register":
                ttl = rng.choice([1.0, 5.0, 20.0])
                leader.keep([terms(lease_id, ttl)])
                ends[lease_id] = (now + DRIFT * ttl, DRIFT * ttl)
            case "renew":
                leader.keep(renewed=[lease_id])
                assert leader.answer() == kept({} if is_known else {"s": [lease_id]})
                if is_known:
                    ends[lease_id] = (now + ends[lease_id][1], ends[lease_id][1])
            case "end":
                leader.keep(ended=[lease_id])
                ends.pop(lease_id, None)
            case "pass":
                leader.pass_time(rng.choice([0.1, 0.9, 3.0, 8.0]))
        now = leader.outbox.time
        assert {one for one, (end, _) in ends.items() if end > now} <= leader.leases <= ends.keys()
        ends = {one: (end, ttl) for one, (end, ttl) in ends.items() if end > now - BEAT - 1.0 or one in leader.leases}
        assert not {one for one, (end, _) in ends.items() if end <= now - BEAT - 1.0}
        assert leader.core.endings.count == len(leader.leases)


def test_a_lease_of_the_store_is_known_before_it_was_taken_over_and_that_does_not_shorten_it() -> None:
    leader = Leader()
    slot = leader.core.slots.held[0]
    slot.apply(SlotWrite(0, 1, [lease_record("a", "s", 5, 5_000, "", (b"x",))], [], []), 0.0)
    assert leader.core.endings.count == 0
    leader.keep(renewed=["a", "b"])
    assert leader.answer() == kept({"s": ["b"]})
    (lease,) = leader.core.endings.of(slot, "s", lease_record("a", "s", 5, 5_000, "", (b"x",)).register_id)
    assert isinstance(lease, HeldLease)
    assert (lease.state, lease.until) == (WAITING, leader.outbox.attended() + 5 * DRIFT)
    until = lease.until
    leader.core.leases.table_changed([slot])
    leader.outbox.end_turn()
    assert lease.until == until
    assert lease_in(slot, "s", lease.register_id) is not None


def test_what_is_due_waits_while_its_slot_does_not_serve() -> None:
    leader = Leader()
    leader.keep([terms("a", 1.0)])
    leader.core.slots.held[0].serving = False
    leader.pass_time(4.0)  # less than until the next comparison
    assert leader.leases == {"a"}
    leader.core.slots.held[0].serving = True
    leader.pass_time(1.0)
    assert leader.leases == set()


def test_a_view_that_an_answer_confirms_late_is_as_old_as_the_question() -> None:
    scene = Leader()
    scene.is_granted = False
    while not any(isinstance(request.message, Heartbeat) for request in scene.outbox.requests):
        scene.outbox.advance(0.1)
    scene.outbox.advance(BEAT)
    scene.outbox.answer(LeaseGranted(1, 5.0, None), kind=Heartbeat)
    asked_at = scene.core.membership.granted_at
    assert scene.outbox.time - asked_at >= BEAT
    sessions = scene.core._sessions
    assert sessions.is_current(asked_at + 1.4 * BEAT)
    assert not sessions.is_current(asked_at + 1.6 * BEAT)
