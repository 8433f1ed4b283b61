"""The state machine alone: rows in, decisions out."""

from __future__ import annotations

import random

import pytest
from slotreeve.errors import ConfigError
from slotreeve_election_mysql.events import (
    Alarm,
    Effect,
    Event,
    Insert,
    Inserted,
    Load,
    Loaded,
    LoadScope,
    Look,
    Looked,
    Release,
    Released,
    Renew,
    Renewed,
    StatementFailed,
    TakeOver,
    TookOver,
)
from slotreeve_election_mysql.machine import Machine
from slotreeve_election_mysql.sql_table import SqlRow
from slotreeve_election_mysql.table import Position
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import LeadershipChanged, Noted, ResignAsked

TIMING = LockTiming(lease=5.0, renew=1.0, timeout=1.0)
FREE = SqlRow("", 3, 0, 0)
HELD = SqlRow("other#1", 3, 7, 4_000)
EXPIRED = SqlRow("other#1", 3, 7, 0)


class Play:
    """A machine, and its time."""

    def __init__(self, observe_only: bool = False) -> None:
        self.machine = Machine("me#1", observe_only, TIMING, random.Random(0))
        self.now = 100.0

    def __call__(self, event: Event) -> list[Effect]:
        return self.machine.step(event, self.now)

    def leads(self) -> Play:
        """Take over in term 4 at once."""
        self(Started())
        assert self(Looked(FREE, False))[-1:] == [TakeOver(FREE, 4)]
        assert self(TookOver(True, self.now)) == [Load(LoadScope.COMPARED)]
        assert self(Loaded()) == [LeadershipChanged("me#1", 4, True, "elected")]
        return self

    def wait(self) -> list[Effect]:
        """Until the machine's deadline."""
        self.now = self.machine.deadline
        return self(Tick())


def test_without_a_row_one_is_made_and_read_again() -> None:
    play = Play()
    assert play(Started()) == [Look()]
    assert play(Looked(None, False)) == [Insert(0, may_wait=False)]
    assert play(Inserted()) == [Look()]


def test_the_lease_counts_from_before_the_request_was_sent_whatever_its_answer_took() -> None:
    play = Play()
    play(Started())
    play(Looked(FREE, False))
    sent_at, play.now = play.now, play.now + 0.9
    play(TookOver(True, sent_at))
    play(Loaded())
    assert play.machine.valid_until == sent_at + 5.0 - TIMING.margin


def test_leading_begins_only_when_the_meta_state_is_loaded() -> None:
    play = Play()
    play(Started())
    play(Looked(FREE, True))
    assert play(TookOver(True, play.now)) == [Load(LoadScope.COMPARED)]
    assert play.machine.valid_until == 0
    assert play(Loaded()) == [LeadershipChanged("me#1", 4, True, "elected")]


def test_the_leader_renews_every_second_and_names_what_it_saw_last() -> None:
    play = Play().leads()
    for renewals in range(3):
        sent_at = play.now
        assert play.wait() == [Renew(4, renewals)]
        assert play.now == pytest.approx(sent_at + 1.0)
        play(Renewed(True, play.now))


def test_a_refused_renewal_ends_the_leadership_at_once() -> None:
    play = Play().leads()
    play.wait()
    down, look = play(Renewed(False, play.now))
    assert isinstance(down, LeadershipChanged)
    assert not down.leading
    assert look == Look()
    assert play.machine.valid_until == 0


def test_a_leader_without_a_database_steps_down_at_its_deadline_and_asks_again_ever_more_rarely() -> None:
    play = Play().leads()
    end, attempts, ended_at = play.machine.valid_until, 0, 0.0
    while play.now < end + 60:
        for effect in play.wait():
            if isinstance(effect, LeadershipChanged):
                ended_at = play.now
                assert "lease ran out" in effect.cause
            elif isinstance(effect, Look | Renew):
                attempts += 1
                play(StatementFailed("gone"))
    assert ended_at == end
    assert attempts < 2 * 65


def test_a_lease_that_ran_out_is_never_taken_up_again_but_given_back() -> None:
    play = Play().leads()
    play.wait()
    sent_at, play.now = play.now, play.machine.valid_until
    assert isinstance(play(Renewed(True, sent_at))[0], LeadershipChanged)
    assert play(Looked(SqlRow("me#1", 4, 1, 900), False)) == [Release(4)]
    assert play(Released()) == []


def test_a_renewal_whose_answer_was_lost_is_followed_by_a_look_and_another() -> None:
    play = Play().leads()
    play.wait()
    assert isinstance(play(StatementFailed("no answer"))[0], Noted)
    assert play.wait() == [Look()]
    assert play(Looked(SqlRow("me#1", 4, 1, 4_000), False))[-1] == Renew(4, 1)


def test_a_take_over_whose_answer_was_lost_makes_no_leader() -> None:
    play = Play()
    play(Started())
    play(Looked(FREE, False))
    play(StatementFailed("no answer"))
    assert play.wait() == [Look()]
    assert play(Looked(SqlRow("me#1", 4, 0, 4_000), False))[-1] == Release(4)


def test_an_answer_that_is_older_than_the_lease_makes_no_leader() -> None:
    play = Play()
    play(Started())
    play(Looked(FREE, False))
    sent_at, play.now = play.now, play.now + 5.0
    assert play(TookOver(True, sent_at)) == [Release(4)]


def test_a_follower_looks_at_the_moment_of_expiry_and_at_least_once_a_turn() -> None:
    play = Play()
    play(Started())
    play(Looked(HELD, False))
    assert 0.9 <= play.machine.deadline - play.now <= 1.1
    play.wait()
    play(Looked(SqlRow("other#1", 3, 8, 300), False))
    assert 0.3 <= play.machine.deadline - play.now <= 0.31


def test_a_follower_takes_the_expired_row_and_one_that_was_slower_looks_again_soon() -> None:
    play = Play()
    play(Started())
    assert play(Looked(EXPIRED, False))[-1] == TakeOver(EXPIRED, 4)
    assert play(TookOver(False, play.now)) == []
    assert 0 < play.machine.deadline - play.now < 0.1


def test_an_observer_only_reads() -> None:
    play = Play(observe_only=True)
    play(Started())
    for row in (None, FREE, EXPIRED, HELD):
        assert not any(isinstance(e, Insert | TakeOver | Renew | Release) for e in play(Looked(row, False)))
        assert Look() in play.wait()


def test_a_node_that_resigned_leaves_the_row_to_the_others_for_one_lease() -> None:
    play = Play().leads()
    down, release = play(ResignAsked(for_good=False))
    assert down == LeadershipChanged(None, 4, False, "resigned")
    assert release == Release(4)
    resigned_at = play.now
    play(Released())
    while Look() in play.wait() and play.now < resigned_at + 5.0:
        assert not any(isinstance(e, TakeOver) for e in play(Looked(SqlRow("", 4, 0, 0), False)))
    assert play(Looked(SqlRow("", 4, 0, 0), False))[-1] == TakeOver(SqlRow("", 4, 0, 0), 5)


def test_a_row_that_is_kept_for_a_node_is_taken_by_that_one_at_once_and_by_others_when_it_has_expired() -> None:
    leader = Play().leads()
    assert leader(ResignAsked(to="other"))[-1] == Release(4, "other")
    mine, theirs = SqlRow(">me", 4, 0, 2_000), SqlRow(">other", 4, 0, 2_000)
    successor = Play()
    successor(Started())
    assert successor(Looked(mine, False))[-1] == TakeOver(mine, 5)
    third = Play()
    third(Started())
    (known,) = third(Looked(theirs, False))
    assert known == LeadershipChanged(None, 4, False, "the row was released for other")
    third.wait()
    over = SqlRow(">other", 4, 0, 0)
    assert third(Looked(over, False))[-1] == TakeOver(over, 5)


def test_a_node_that_resigned_takes_a_row_that_is_kept_for_it_unless_it_stops() -> None:
    for for_good in (False, True):
        play = Play().leads()
        play(ResignAsked(for_good))
        play(Released())
        play.wait()
        kept = SqlRow(">me", 5, 0, 2_000)
        assert (TakeOver(kept, 6) in play(Looked(kept, False))) == (not for_good)


def test_terms_rise_above_what_was_seen_even_if_the_row_goes_back() -> None:
    play = Play()
    play(Started())
    play(Looked(HELD, False))
    play.wait()
    old = SqlRow("other#1", 1, 0, 0)
    changed, take_over = play(Looked(old, False))
    assert isinstance(changed, LeadershipChanged)
    assert changed.term == 3
    assert take_over == TakeOver(old, 4)


def test_times_that_cannot_work_are_refused_by_name() -> None:
    LockTiming(lease=3.1, renew=1.0, timeout=1.0).check("[election.mysql]")
    with pytest.raises(ConfigError, match=r"\[election.mysql\]: lease_ms \(3000\) must be greater than"):
        LockTiming(lease=3.0, renew=1.0, timeout=1.0).check("[election.mysql]")


# --- a database that was set back ------------------------------------------------------------------------------------

OLD = "it has change 5 of the meta state, this node has 9"
ALARM = Alarm(f"the database was set back: {OLD}; bring the newest copy back, or run `slotreeve election accept`")


def test_a_leader_whose_database_was_set_back_steps_down_with_one_alarm_and_takes_nothing_over() -> None:
    play = Play().leads()
    play.wait()
    play(Renewed(False, play.now))  # the row is older, so the compare-and-set fails
    effects = play(Looked(EXPIRED, False, set_back=OLD))
    assert ALARM in effects
    assert not any(isinstance(effect, TakeOver | Load) for effect in effects)
    for _ in range(5):
        assert play.wait() == [Look()]
        assert play(Looked(EXPIRED, False, set_back=OLD)) == []
    assert play.machine.valid_until == 0


def test_a_leader_steps_down_where_only_changes_were_lost_and_the_row_is_as_it_was() -> None:
    play = Play().leads()
    play.wait()
    assert ALARM in play(Renewed(True, play.now, set_back=OLD))
    assert play.machine.valid_until == 0
    assert play.wait() == [Look()]


def test_a_follower_of_a_database_that_was_set_back_knows_no_leader_whoever_the_row_names() -> None:
    play = Play()
    play(Started())
    play(Looked(HELD, False))
    play.wait()
    effects = play(Looked(HELD, False, set_back=OLD))
    assert effects == [LeadershipChanged(None, 3, False, f"the database was set back: {OLD}"), ALARM]


def test_a_database_that_has_the_newest_changes_again_is_led_by_as_before_and_may_raise_the_alarm_again() -> None:
    play = Play()
    play(Started())
    play(Looked(EXPIRED, False, set_back=OLD))
    play.wait()
    assert play(Looked(EXPIRED, False))[-1:] == [TakeOver(EXPIRED, 4)]
    play(TookOver(False, play.now))
    play.wait()
    assert ALARM in play(Looked(EXPIRED, False, set_back=OLD))


def test_an_accepted_database_is_loaded_before_its_next_leader_leads() -> None:
    play = Play()
    play(Started())
    play(Looked(EXPIRED, False, set_back=OLD))
    play.wait()
    assert play(Looked(EXPIRED, True, is_accepted_anew=True))[-1:] == [TakeOver(EXPIRED, 4)]
    assert play(TookOver(True, play.now)) == [Load(LoadScope.ANEW)]
    assert play(Loaded()) == [LeadershipChanged("me#1", 4, True, "elected")]


def test_a_leader_releases_its_row_where_another_history_is_accepted_under_it() -> None:
    play = Play().leads()
    play.wait()
    play(Renewed(False, play.now))
    mine = SqlRow("me#1", 4, 9, 3_000, Position(5, 4), "accepted")
    effects = play(Looked(mine, True, is_accepted_anew=True))
    assert effects[-1:] == [Release(4)]
    assert play.machine.valid_until == 0


def test_a_database_that_can_be_read_but_refuses_changes_is_asked_once_a_renewal_time_at_last() -> None:
    play, began = Play().leads(), 100.0
    refused = notes = 0
    effects = play.wait()
    while play.now < began + 60.0:
        notes += sum(isinstance(effect, Noted) for effect in effects)
        match effects[-1:]:
            case [Look()]:
                effects = play(Looked(EXPIRED, False))
            case [Renew() | TakeOver() | Release()]:
                refused += 1
                effects = play(StatementFailed("the disk is full"))
            case _:
                effects = play.wait()
    assert (notes, 50 <= refused <= 130) == (1, True), "at random moments within the second half of the time"
    while effects[-1:] != [Look()]:
        effects = play(StatementFailed("the disk is full")) if effects else play.wait()
    notes = sum(isinstance(effect, Noted) for effect in (*play(Looked(HELD, False)), *play(Loaded())))
    assert notes == 1, "it is over"
