"""Who is in sync with a slot's leader: what it asks, what it reports, and whom acknowledgements wait for."""

from __future__ import annotations

from slotreeve.errors import RequestTimeout
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.meta_messages import Heartbeat, LeaseGranted, SlotCopies, View
from slotreeve_protocol.slot_messages import Access, Answers, Confirm, Follow, SlotAnswer, SlotDigests, SlotEpoch
from slotreeve_servers.data.replication.in_sync import ABSENT_SECONDS
from slotreeve_servers.node.outbox import Peer

from tests.servers.recording_outbox import a_peer, deliver
from tests.servers.test_lease_keeper import META, Leader, terms
from tests.servers.world import node_of

LEARNER = a_peer("data-2", Role.DATA)
NEXT_PROCESS = a_peer("data-2", Role.DATA, life=2)
OTHER = a_peer("data-3", Role.DATA)
YES = Answers([SlotAnswer(0, Access.ACCEPT, 1)])
NOT_YET = Answers([SlotAnswer(0, Access.MISMATCH, 1)])


class Scene(Leader):
    """data-1 leads slot 0, which data-3 follows and data-2 learns, under table 1."""

    def __init__(self, followers: tuple[str, ...] = (), learners: tuple[str, ...] = ("data-2",)) -> None:
        self.learners = learners
        self.learner_process = LEARNER.process_id
        super().__init__(*followers)

    def lead(self, epoch: int) -> None:
        self.row(self.followers, self.learners, epoch)

    def row(self, followers: tuple[str, ...], learners: tuple[str, ...], epoch: int, revision: int = 0) -> None:
        """A newer view, by default with a newer table, under the same leader epoch."""
        table = SlotTable(epoch, (Slot(0, "data-1", 1, followers, learners),))
        nodes = [node_of("data-1"), node_of("data-3"), Node("data-2", Role.DATA, "data-2:1", self.learner_process)]
        deliver(self.outbox, self.core.membership.handlers, META, View(1, revision or epoch, table, nodes, []))
        self.pass_time(0.1)

    def follows(self, *peers: Peer) -> None:
        """These compare their copies and follow from now on."""
        for peer in peers:
            self.core.opened(peer)
            deliver(self.outbox, self.core.handlers, peer, Follow([SlotDigests(0, 1, {})]))
        self.outbox.end_turn()

    def asked(self) -> list[Confirm]:
        return [r.message for r in self.outbox.requests if isinstance(r.message, Confirm)]

    def reports(self) -> list[SlotCopies]:
        return list(self.core.holdings().copies)

    def loses_data_3_after_two_seconds(self) -> None:
        """A lease waits for data-3 from now on: it is reported as lost after two seconds, and not after one."""
        self.keep([terms("waits")])
        self.pass_time(1.0)
        assert self.reports() == []
        self.pass_time(1.0)
        assert self.reports() == [SlotCopies(0, 1, [], ["data-3"])]

    def is_acknowledged(self) -> bool:
        answer = self.answer()
        return answer is not None and answer.access is Access.ACCEPT


def test_a_learner_that_follows_answers_two_questions_and_is_reported_as_ready() -> None:
    scene = Scene()
    assert scene.asked() == []
    scene.follows(LEARNER)
    assert scene.asked() == [Confirm([SlotEpoch(0, 1)], 1, 1)]
    scene.outbox.answer(YES, kind=Confirm)
    assert scene.reports() == []
    scene.outbox.end_turn()
    assert scene.asked() == [Confirm([SlotEpoch(0, 1)], 1, 1)]
    scene.outbox.answer(YES, kind=Confirm)
    assert scene.reports() == [SlotCopies(0, 1, ["data-2"], [])]
    scene.pass_time(1.0)
    assert scene.asked() == [], "nothing is left to ask"


def test_a_follower_that_was_silent_is_asked_again_while_no_table_takes_it_out() -> None:
    scene = Scene(followers=("data-3",), learners=())
    scene.follows(OTHER)
    scene.keep([terms("a")])
    scene.outbox.answer(None, RequestTimeout("it is frozen"), kind=Confirm)
    assert [report.lost for report in scene.reports()] == [["data-3"]]
    scene.pass_time(60.0)
    for name in ("b", "c"):
        scene.keep([terms(name)])
        assert not scene.is_acknowledged(), "nobody waits for it before it answers"
    assert scene.asked() == [Confirm([])], "one question at a time"
    scene.outbox.answer(None, RequestTimeout("it is frozen still"), kind=Confirm)
    scene.keep([terms("d")])
    assert not scene.is_acknowledged()
    scene.outbox.answer(Answers([]), kind=Confirm)
    scene.keep([terms("e")])
    assert scene.asked() == [Confirm([SlotEpoch(0, 1)])]
    scene.outbox.answer(YES, kind=Confirm)
    assert scene.is_acknowledged()


def test_a_process_that_connects_again_loses_its_older_connection_so_that_it_asks_for_its_streams_again() -> None:
    """Where an older attempt to connect is answered late, the newer connection is the one that the process closes."""
    scene = Scene()
    scene.follows(LEARNER)
    scene.outbox.take()
    scene.core.opened(a_peer("data-2", Role.DATA))
    assert [effect.peer for effect in scene.outbox.effects if effect.kind == "closed"] == [LEARNER]


def test_what_is_acknowledged_between_the_two_questions_waits_for_the_learner() -> None:
    """Found by the simulator: the question was sent before a lease came, and answered after it was acknowledged."""
    scene = Scene()
    scene.follows(LEARNER)
    scene.keep([terms("before")])
    assert scene.is_acknowledged(), "a learner delays nothing before it has answered"
    scene.outbox.answer(YES, kind=Confirm)
    scene.keep([terms("a")])
    assert not scene.is_acknowledged()
    second, behind_the_lease = scene.asked()
    assert (second.table_epoch, behind_the_lease.table_epoch) == (1, 0)
    scene.outbox.answer(YES, kind=Confirm)
    scene.outbox.answer(YES, kind=Confirm)
    assert scene.is_acknowledged()


class TwoSlots(Scene):
    """data-2 learns slot 1, too."""

    def row(self, followers: tuple[str, ...], learners: tuple[str, ...], epoch: int, revision: int = 0) -> None:
        rows = tuple([Slot(number, "data-1", 1, followers, learners) for number in (0, 1)])
        nodes = [node_of(name) for name in ("data-1", "data-2", "data-3")]
        view = View(1, revision or epoch, SlotTable(epoch, rows), nodes, [])
        deliver(self.outbox, self.core.membership.handlers, META, view)
        self.pass_time(0.1)


def test_a_learner_that_has_answered_twice_is_waited_for_before_any_heartbeat_has_said_so() -> None:
    scene = TwoSlots()
    scene.core.opened(LEARNER)
    deliver(scene.outbox, scene.core.handlers, LEARNER, Follow([SlotDigests(0, 1, {}), SlotDigests(1, 1, {})]))
    lacks_slot_1 = Answers([SlotAnswer(0, Access.ACCEPT, 1), SlotAnswer(1, Access.MISMATCH, 1)])
    for _ in range(2):
        scene.outbox.answer(lacks_slot_1, kind=Confirm)
        scene.outbox.advance(0.1)
    scene.keep([terms("a")])
    assert not scene.is_acknowledged()
    scene.outbox.answer(NOT_YET, kind=Confirm)  # about slot 1
    scene.outbox.answer(YES, kind=Confirm)
    assert scene.is_acknowledged()


def test_a_learner_that_is_slow_on_trial_holds_nothing_up_and_is_not_reported() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    scene.outbox.answer(YES, kind=Confirm)
    scene.keep([terms("a")])
    scene.outbox.answer(None, RequestTimeout("it is slow"), kind=Confirm)  # the second question
    scene.outbox.answer(None, RequestTimeout("it is slow"), kind=Confirm)  # behind the lease
    assert not scene.is_acknowledged()
    scene.keep([terms("a")])
    assert scene.is_acknowledged(), "it is on trial no more"
    assert scene.reports() == []


def test_a_learner_without_the_newest_table_is_asked_again() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    scene.outbox.answer(NOT_YET, kind=Confirm)
    assert scene.asked() == []
    scene.pass_time(0.1)
    assert len(scene.asked()) == 1


def test_a_learner_is_ready_after_two_answers_in_succession_and_not_after_two_of_three() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    for reply in (YES, NOT_YET, YES):
        scene.pass_time(0.1)
        scene.outbox.answer(reply, kind=Confirm)
        assert scene.reports() == []
    scene.pass_time(0.1)
    scene.outbox.answer(YES, kind=Confirm)
    assert scene.reports() == [SlotCopies(0, 1, ["data-2"], [])]


def ready(scene: Scene) -> None:
    scene.outbox.answer(YES, kind=Confirm)
    scene.outbox.end_turn()
    scene.outbox.answer(YES, kind=Confirm)


def test_a_report_binds_until_there_is_a_newer_table() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    ready(scene)
    scene.core.closed(LEARNER, "lost")
    assert scene.reports() == [], "it is not ready any more"
    scene.keep([terms("a")])
    assert not scene.is_acknowledged(), "a table that makes it a follower may be on its way"
    scene.pass_time(2.0)
    assert scene.reports() == [SlotCopies(0, 1, [], ["data-2"])]
    scene.row((), ("data-2",), 2)
    scene.keep([terms("a")])
    assert scene.is_acknowledged(), "under the newer table nobody has said that it is ready"
    assert scene.reports() == []


def test_a_newer_view_with_the_same_table_releases_nothing_that_was_reported() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    ready(scene)
    scene.core.closed(LEARNER, "lost")
    scene.row((), ("data-2",), 1, revision=9)
    scene.keep([terms("a")])
    assert not scene.is_acknowledged(), "the report counts until the table is another one"
    scene.pass_time(2.0)
    scene.row((), ("data-2",), 1, revision=10)
    assert scene.reports() == [SlotCopies(0, 1, [], ["data-2"])]


def test_a_learner_that_is_ready_is_reported_and_waited_for_under_each_table() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    ready(scene)
    scene.row((), ("data-2",), 2)
    assert scene.reports() == [SlotCopies(0, 1, ["data-2"], [])]
    scene.keep([terms("a")])
    assert not scene.is_acknowledged()
    scene.outbox.answer(YES, kind=Confirm)
    assert scene.is_acknowledged()


def test_what_a_former_process_of_the_learner_answered_does_not_count_for_the_next_one() -> None:
    """Its host lost power, and its connection seems to live on when the next process is a member already."""
    scene = Scene()
    scene.follows(LEARNER)
    ready(scene)
    scene.learner_process = NEXT_PROCESS.process_id
    scene.row((), ("data-2",), 2)
    assert scene.reports() == []
    assert scene.asked() == []
    scene.follows(LEARNER)
    assert scene.asked() == [], "it is no member any more"
    scene.follows(NEXT_PROCESS)
    ready(scene)
    assert scene.reports() == [SlotCopies(0, 1, ["data-2"], [])]


def test_a_leader_that_has_missed_a_table_asks_its_learners_again() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    ready(scene)
    scene.row((), ("data-2",), 2)
    assert scene.reports() == [SlotCopies(0, 1, ["data-2"], [])]
    scene.row((), ("data-2",), 4)
    assert scene.reports() == []
    assert scene.asked() == [Confirm([SlotEpoch(0, 1)], 4, 4)]
    scene.keep([terms("a")])
    assert scene.is_acknowledged(), "what it reported under table 2 makes nobody a follower"


def test_a_follower_that_does_not_follow_is_lost_after_a_while_and_only_if_something_waits_for_it() -> None:
    scene = Scene(("data-3",), ())
    scene.pass_time(5.0)
    assert scene.reports() == []
    scene.loses_data_3_after_two_seconds()
    scene.row((), ("data-3",), 2)
    assert scene.reports() == []
    scene.keep([terms("a")])
    assert scene.is_acknowledged()


def test_a_follower_that_comes_back_in_time_is_not_lost() -> None:
    scene = Scene(("data-3",), ())
    scene.keep([terms("a")])
    scene.pass_time(1.0)
    scene.follows(OTHER)
    scene.pass_time(2.0)
    assert scene.reports() == []
    scene.core.closed(OTHER, "lost")
    scene.loses_data_3_after_two_seconds()


def test_a_follower_is_late_although_a_learner_is_on_trial() -> None:
    scene = Scene(("data-3",))
    scene.follows(LEARNER)
    scene.outbox.answer(YES, kind=Confirm)
    scene.keep([terms("a")])
    scene.pass_time(2.0)
    assert [copies.lost for copies in scene.reports()] == [["data-3"]]


def test_a_follower_that_lacks_something_is_not_lost_because_another_one_is_silent() -> None:
    scene = Scene(("data-2", "data-3"), ())
    scene.follows(LEARNER, OTHER)
    scene.keep([terms("a")])
    silent, lacking = [request for request in scene.outbox.requests if isinstance(request.message, Confirm)]
    scene.outbox.requests = [r for r in scene.outbox.requests if r not in (silent, lacking)]
    silent.answered(None, RequestTimeout("it is frozen"))
    lacking.answered(NOT_YET, None)
    assert [copies.lost for copies in scene.reports()] == [[silent.peer.node]]


def test_that_a_follower_is_lost_is_told_before_the_next_regular_heartbeat() -> None:
    scene = Scene(("data-3",), ())
    scene.follows(OTHER)
    scene.keep([terms("a")])
    scene.outbox.requests = [r for r in scene.outbox.requests if not isinstance(r.message, Heartbeat)]
    scene.outbox.answer(None, RequestTimeout("it is frozen"), kind=Confirm)
    scene.outbox.end_turn()
    [heartbeat] = [r.message for r in scene.outbox.requests if isinstance(r.message, Heartbeat)]
    assert heartbeat.copies == [SlotCopies(0, 1, [], ["data-3"])]


def test_a_follower_that_was_late_and_followed_no_more_has_the_whole_time_when_it_follows_again() -> None:
    scene = Scene(("data-3",), ())
    scene.keep([terms("a")])
    scene.pass_time(1.4)
    scene.row((), (), 2)
    scene.pass_time(0.3)
    scene.row(("data-3",), (), 3)
    scene.pass_time(0.3)
    assert scene.reports() == []
    scene.loses_data_3_after_two_seconds()


def test_a_learner_that_was_ready_and_is_none_any_more_is_waited_for_no_more() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    ready(scene)
    assert scene.reports() == [SlotCopies(0, 1, ["data-2"], [])]
    scene.row((), (), 2)
    assert scene.reports() == []
    scene.keep([terms("a")])
    assert scene.is_acknowledged()


def test_a_learner_that_is_absent_has_the_whole_time_when_it_learns_again() -> None:
    scene = Scene()
    scene.pass_time(ABSENT_SECONDS + 0.5)
    assert [copies.absent for copies in scene.reports()] == [["data-2"]]
    scene.row((), (), 2)
    scene.row((), ("data-2",), 3)
    scene.pass_time(ABSENT_SECONDS - 0.5)
    assert scene.reports() == []
    scene.pass_time(1.0)
    assert [copies.absent for copies in scene.reports()] == [["data-2"]]


def test_a_follower_that_does_not_answer_is_lost_at_once() -> None:
    scene = Scene(("data-3",), ())
    scene.follows(OTHER)
    scene.keep([terms("a")])
    scene.outbox.answer(None, RequestTimeout("it is frozen"), kind=Confirm)
    assert scene.reports() == [SlotCopies(0, 1, [], ["data-3"])]


class SlotsOfOneFollower(Scene):
    """data-1 leads the slots 0 to 2, which data-3 follows."""

    def __init__(self) -> None:
        super().__init__(("data-3",), ())
        rows = tuple(Slot(number, "data-1", 1, ("data-3",)) for number in range(3))
        nodes = [node_of("data-1"), node_of("data-3")]
        deliver(self.outbox, self.core.membership.handlers, META, View(1, 9, SlotTable(9, rows), nodes, []))
        self.core.opened(OTHER)
        deliver(self.outbox, self.core.handlers, OTHER, Follow([SlotDigests(number, 1, {}) for number in range(3)]))
        self.outbox.end_turn()
        self.forget_questions()

    def forget_questions(self) -> None:
        self.outbox.requests = [r for r in self.outbox.requests if not isinstance(r.message, Confirm)]

    def confirm(self, number: int) -> set[int]:
        """Somebody waits for the followers of this slot: which slots some follower lacks, as far as that is known."""
        failed = set[int]()
        self.core.confirmations.confirm([self.core.slots.held[number]], failed.update)
        self.outbox.end_turn()
        return failed

    def lost(self) -> dict[int, list[str]]:
        return {copies.slot: copies.lost for copies in self.reports() if copies.lost}


def test_a_follower_that_has_come_back_is_not_lost_by_a_look_that_comes_late() -> None:
    scene = Scene(("data-3",), ())
    scene.keep([terms("a")])
    scene.outbox.time += 2.0
    scene.follows(OTHER)
    scene.pass_time(0.2)
    assert scene.reports() == []


def test_nobody_waits_for_a_follower_that_has_left_a_question_about_another_slot_without_an_answer() -> None:
    scene = SlotsOfOneFollower()
    scene.confirm(0)
    scene.outbox.answer(None, RequestTimeout("it is frozen"), kind=Confirm)
    assert scene.lost() == {0: ["data-3"]}, "nobody waits for it in the others"
    assert scene.confirm(1) == {1}, "at once"
    assert scene.lost() == {0: ["data-3"], 1: ["data-3"]}
    assert scene.asked() == [Confirm([])], "whether it answers again"


def test_a_follower_that_answers_again_is_waited_for_again() -> None:
    scene = SlotsOfOneFollower()
    scene.confirm(0)
    scene.confirm(1)
    first, second = [r for r in scene.outbox.requests if isinstance(r.message, Confirm)]
    scene.forget_questions()
    first.answered(None, RequestTimeout("it is slow"))
    second.answered(Answers([SlotAnswer(1, Access.ACCEPT, 1)]), None)
    assert scene.confirm(2) == set()
    assert scene.lost() == {0: ["data-3"]}
    assert scene.asked() == [Confirm([]), Confirm([SlotEpoch(2, 1)])]
    scene.core.closed(OTHER, "lost")
    assert scene.confirm(2) == {2}, "it does not follow, and may in a moment"
    assert scene.lost() == {0: ["data-3"]}


def test_a_follower_that_has_another_table_is_not_lost() -> None:
    scene = Scene(("data-3",), ())
    scene.follows(OTHER)
    scene.keep([terms("a")])
    scene.outbox.answer(NOT_YET, kind=Confirm)
    scene.pass_time(2.0)
    assert scene.reports() == []


def test_of_two_connections_of_one_follower_the_newer_one_is_asked() -> None:
    """The older one has ended at its other end, which nobody here was told of yet."""
    scene = Scene(("data-3",), ())
    older, newer = OTHER, a_peer("data-3", Role.DATA)
    scene.follows(older)
    scene.follows(newer)
    scene.keep([terms("a")])
    assert [request.peer for request in scene.outbox.requests if isinstance(request.message, Confirm)] == [newer]
    scene.outbox.answer(YES, kind=Confirm)
    assert scene.is_acknowledged()
    assert scene.reports() == []


def test_a_learner_that_connects_anew_is_asked_two_questions_again() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    ready(scene)
    scene.follows(a_peer("data-2", Role.DATA))
    assert scene.reports() == []
    ready(scene)
    assert scene.reports() == [SlotCopies(0, 1, ["data-2"], [])]


def test_a_question_over_a_connection_that_a_follower_has_given_up_says_nothing_of_it() -> None:
    scene = Scene(("data-3",), ())
    scene.follows(OTHER)
    scene.keep([terms("a")])
    scene.follows(a_peer("data-3", Role.DATA))
    scene.outbox.answer(None, RequestTimeout("nobody is there any more"), kind=Confirm)
    assert not scene.is_acknowledged()
    assert scene.reports() == []
    scene.keep([terms("a")])
    scene.outbox.answer(YES, kind=Confirm)
    assert scene.is_acknowledged()
    scene.pass_time(2.0)
    assert scene.reports() == []


def test_a_learner_that_does_not_come_is_absent_until_it_comes() -> None:
    scene = Scene()
    look = scene.core.in_sync.look
    look()
    scene.outbox.advance(ABSENT_SECONDS - 0.1)
    look()
    assert scene.reports() == []
    scene.outbox.advance(0.2)
    look()
    assert [told.absent for told in scene.reports()] == [["data-2"]]
    scene.follows(LEARNER)
    look()
    assert scene.reports() == []


def test_a_learner_that_is_streamed_to_and_says_nothing_any_more_is_absent() -> None:
    scene = Scene()
    scene.follows(LEARNER)
    scene.outbox.silence[LEARNER] = ABSENT_SECONDS
    scene.core.in_sync.look()
    scene.outbox.advance(ABSENT_SECONDS)
    scene.core.in_sync.look()
    assert [told.absent for told in scene.reports()] == [["data-2"]]


def test_there_are_no_heartbeats_between_the_regular_ones_while_there_is_nothing_new_to_say() -> None:
    scene = Scene()
    sent = 0
    for _ in range(50):
        scene.outbox.advance(0.1)
        while any(isinstance(request.message, Heartbeat) for request in scene.outbox.requests):
            scene.outbox.answer(LeaseGranted(1, 5.0, None), kind=Heartbeat)
            sent += 1
    assert 3 <= sent <= 6, "5 s, and a heartbeat a second"
