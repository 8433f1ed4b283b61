"""The way of a slot to its target: who leads, who is in sync, who learns, whatever dies meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.model.slots import Slot
from slotreeve_servers.meta.arranging.copy_steps import NO_REPORT, CopyReport, CopyStep, by_name, towards

from tests.servers.table_moves import moved

NAMES = "abcde"


def row(leader: str | None, followers: str = "", learners: str = "", epoch: int = 1) -> Slot:
    return Slot(0, leader, epoch, tuple(followers), tuple(learners))


def text(slot: Slot) -> str:
    """Such as ``a bc+d``: a leads, b and c follow, d learns."""
    return f"{slot.leader} {''.join(slot.followers)}+{''.join(slot.learners)}"


def way(now: Slot, target: Slot, live: str, ready: str = NAMES) -> list[str]:
    """The rows on the way to the target, where learners are ready soon."""
    rows = list[str]()
    for _ in range(20):
        report = CopyReport(frozenset(ready).intersection(now.learners))
        change = towards(now, target, set(live), report)
        if not change.moves:
            return rows
        now = change.row
        rows.append(text(now))
    raise AssertionError(f"it does not end: {rows}")


def test_a_follower_is_replaced_by_one_that_has_learned() -> None:
    assert way(row("a", "b"), row("a", "c"), "abc") == ["a b+c", "a c+"]
    assert way(row("a", "b"), row("a", "c"), "abc", ready="") == ["a b+c"], "c is not ready"


def test_who_shall_lead_learns_follows_and_leads_then() -> None:
    assert way(row("a", "b"), row("c", "b"), "abc") == ["a b+c", "c ba+", "c b+"]
    assert way(row("a"), row("b"), "ab") == ["a +b", "b a+", "b +"], "with one copy, too"


def test_a_follower_leads_at_once_and_the_former_leader_follows() -> None:
    assert way(row("a", "b"), row("b", "a"), "ab") == ["b a+"]


def test_all_holders_are_replaced_one_after_the_other() -> None:
    assert way(row("a", "b"), row("c", "d"), "abcd") == ["a b+cd", "c bda+", "c d+"]


def test_a_dead_leader_is_followed_by_a_member_and_a_learner_waits() -> None:
    change = towards(row("a", "b", "c"), row("c", "b"), set("bcd"), CopyReport(frozenset("c")))
    assert text(change.row) == "b +c"
    assert change.steps == [CopyStep.SUCCEED]
    assert way(row("a", "b", "c"), row("c", "b"), "bcd") == ["b +c", "c b+"]


def test_of_several_members_the_one_of_the_target_leads_else_the_one_of_the_lowest_rank() -> None:
    assert text(towards(row("a", "bc"), row("c", "b"), set("bc")).row) == "c b+"
    assert text(towards(row("a", "bc"), row("d", "b"), set("bcd")).row) == "b c+d"

    def c_first(name: str) -> tuple[int, int, str]:
        return int(name != "c"), 0, name

    assert text(towards(row("a", "bc"), row("d", "b"), set("bcd"), NO_REPORT, c_first).row) == "c b+d"


def test_where_no_member_lives_a_learner_leads_else_an_empty_server_and_that_is_unclean() -> None:
    change = towards(row("a", "b", "cd"), row("e", "c"), set("cde"))
    assert (text(change.row), change.steps[0]) == ("c +de", CopyStep.UNCLEAN)
    assert "no server in sync lives" in change.moves[0].reason
    change = towards(row("a", "b"), row("e", "c"), set("cde"))
    assert (text(change.row), change.steps[0]) == ("e +c", CopyStep.UNCLEAN)
    assert "no server with a copy lives" in change.moves[0].reason
    assert towards(row("a", "b"), row("a", "b"), set("c")).moves == [], "nobody is planned that lives"


def test_a_slot_that_nobody_has_led_begins_clean() -> None:
    change = towards(row(None, epoch=0), row("a", "b"), set("ab"), why="first")
    assert (text(change.row), change.steps) == ("a +b", [CopyStep.BEGIN, CopyStep.LEARN])
    assert change.moves[0].reason == "first"


def test_a_dead_follower_leaves_and_another_one_learns() -> None:
    assert way(row("a", "b"), row("a", "c"), "ac") == ["a +c", "a c+"]


def test_a_follower_that_the_leader_lost_learns_and_follows_again() -> None:
    change = towards(row("a", "b"), row("a", "b"), set("ab"), CopyReport(lost=frozenset("b")))
    assert (text(change.row), change.steps) == ("a +b", [CopyStep.LEAVE])
    assert change.moves[0].reason == "a does not reach it"
    assert way(change.row, row("a", "b"), "ab") == ["a b+"]


def test_a_learner_that_was_ready_and_is_lost_learns_on_under_a_newer_table() -> None:
    """Found by the simulator: the table that dropped it left the slot a copy short."""
    change = towards(row("a", "", "b"), row("a", "b"), set("ab"), CopyReport(lost=frozenset("b")))
    assert (text(change.row), change.steps) == ("a +b", [CopyStep.LEAVE])
    assert [move.reason for move in change.moves] == ["a does not reach it"], "a table is made"
    assert way(change.row, row("a", "b"), "ab") == ["a b+"]


def test_a_member_beyond_the_target_stays_while_a_wanted_one_learns() -> None:
    assert text(towards(row("a", "bc"), row("a", "d"), set("abcd")).row) == "a b+d", "one of two is enough"


@dataclass(frozen=True)
class Fate:
    """What happens between two tables: who dies or comes back, whose copies are ready, whom the leader lost."""

    live: frozenset[str]
    ready: frozenset[str]
    lost: frozenset[str]
    absent: frozenset[str]


SOME = st.frozensets(st.sampled_from(NAMES))
FATES = st.lists(st.builds(Fate, SOME, SOME, SOME, SOME), max_size=8)


@st.composite
def rows_of_names(draw: st.DrawFn, learners: bool) -> Slot:
    order = draw(st.permutations(NAMES))
    followers = draw(st.integers(0, 2))
    learning = draw(st.integers(0, 2)) if learners else 0
    return Slot(0, order[0], 1, tuple(order[1 : 1 + followers]), tuple(order[1 + followers : 1 + followers + learning]))


@settings(max_examples=500)
@given(rows_of_names(learners=True), rows_of_names(learners=False), FATES)
def test_from_any_row_whatever_dies_each_row_is_safe_and_the_target_is_reached(
    now: Slot, target: Slot, fates: list[Fate]
) -> None:
    for fate in fates:
        report = CopyReport(
            fate.ready & set(now.learners), fate.lost - fate.ready, (fate.absent & set(now.learners)) - fate.ready
        )
        change = towards(now, target, fate.live, report)
        _is_safe(now, target, fate.live, report, change.row)
        assert moved(now, change.moves) == (change.row.leader, set(change.row.followers), set(change.row.learners))
        assert len(change.steps) + (CopyStep.HAND_OVER in change.steps) == len(change.moves)
        # Who holds nothing any more, and lives again later, is another process.
        now = Slot(0, change.row.leader, 1, change.row.followers, change.row.learners)
        if now.leader not in fate.live:
            break
    everybody = set(NAMES)
    shown = set()
    for _ in range(10):
        report = CopyReport(frozenset(now.learners))
        change = towards(now, target, everybody, report)
        _is_safe(now, target, everybody, report, change.row)
        if not change.moves:
            break
        assert text(change.row) not in shown, "a step undid another one"
        shown.add(text(change.row))
        now = change.row
    assert (now.leader, set(now.followers), now.learners) == (target.leader, set(target.followers), ())


def _is_safe(old: Slot, target: Slot, live: frozenset[str] | set[str], report: CopyReport, new: Slot) -> None:
    holders = new.holders
    assert len(holders) == len(set(holders))
    living = [name for name in old.in_sync if name in live]
    if old.leader in live or living:
        assert new.leader in live
        # Whoever is in sync now was in sync, or learned, and its leader, which lives, called it ready.
        joined = set(new.in_sync) - set(living)
        assert joined <= set(old.learners) & report.ready
        assert not joined or old.leader in live
    assert new.leader not in live or set(new.holders) >= live & set(target.holders), "who is wanted holds it at once"
    kept = [name for name in new.in_sync if name in live]
    gone = [name for name in living if name not in holders]
    assert not gone or len(kept) >= min(len(target.holders), len(living))
    assert set(living) - set(new.in_sync) <= set(gone) | report.lost, (
        "who is in sync no more has gone, or the leader asked for it"
    )


def test_in_the_place_of_a_learner_that_does_not_reach_the_leader_another_one_follows_until_it_does() -> None:
    now, target = row("a", "", "b"), row("a", "b")
    apart = CopyReport(absent=frozenset("b"))
    now = towards(now, target, set("abcd"), apart).row
    assert text(now) == "a +bc"
    assert not towards(now, target, set("abcd"), apart).moves, "one is enough"
    now = towards(now, target, set("abcd"), CopyReport(ready=frozenset("c"), absent=frozenset("b"))).row
    assert text(now) == "a c+b"
    assert not towards(now, target, set("abcd"), apart).moves
    assert way(now, target, "abcd") == ["a b+"]


def test_of_several_learners_the_one_that_was_in_sync_last_leads_where_nobody_in_sync_lives() -> None:
    now = towards(row("a", "b", "c"), row("a", "bc"), set("abc"), CopyReport(lost=frozenset("b"))).row
    assert text(now) == "a +bc"
    change = towards(now, row("c", "b"), set("bc"))
    assert (change.row.leader, change.steps[0]) == ("b", CopyStep.UNCLEAN)


def test_the_rank_by_name_is_the_order_of_names() -> None:
    assert by_name("a") < by_name("b")


# --- the picture -----------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs/copies.md").read_text()
NONE, LEARNER, FOLLOWER, LEADER = "none", "learner", "follower", "leader"


def all_rows(names: str, learners: bool) -> Iterator[Slot]:
    """Every row of these servers, in one order of followers and of learners."""
    kinds = (NONE, LEARNER, FOLLOWER) if learners else (NONE, FOLLOWER)
    for leader in (None, *names):
        others = [name for name in names if name != leader]
        for held in product(kinds, repeat=len(others)):
            followers, learning = (
                tuple(name for name, what in zip(others, held, strict=True) if what == kind)
                for kind in (FOLLOWER, LEARNER)
            )
            yield Slot(0, leader, 1 if leader or followers or learning else 0, followers, learning)


def some_of(names: Iterable[str]) -> Iterator[frozenset[str]]:
    every = sorted(names)
    return (frozenset(few) for size in range(len(every) + 1) for few in combinations(every, size))


def state(slot: Slot, name: str) -> str:
    if name == slot.leader:
        return LEADER
    return FOLLOWER if name in slot.followers else LEARNER if name in slot.learners else NONE


def test_the_picture_has_every_way_of_a_copy_and_no_other() -> None:
    drawn = {
        (match[1], match[2]): set(re.split(r", | and ", match[3]))
        for match in re.finditer(r"^    (\w+) --> (\w+): (.+)$", PAGE, re.MULTILINE)
    }
    seen: dict[tuple[str, str], set[str]] = {}
    for now in all_rows("abc", learners=True):
        for target in all_rows("abc", learners=False):
            if target.leader is None:
                continue
            for live in some_of("abc"):
                for ready in some_of(now.learners):
                    for lost in some_of((*now.followers, *now.learners)):
                        change = towards(now, target, live, CopyReport(ready, lost))
                        for name in "abc":
                            edge = state(now, name), state(change.row, name)
                            if edge[0] != edge[1]:
                                seen.setdefault(edge, set()).update(change.steps)
    assert drawn.keys() == seen.keys()
    for edge, steps in drawn.items():
        assert steps <= seen[edge], edge
    assert set().union(*drawn.values()) == set(CopyStep)
    assert set(re.findall(r"^\| ([a-z ]+) \| [A-Z]", PAGE, re.MULTILINE)) == set(CopyStep)
