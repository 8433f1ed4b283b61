"""The checker of histories, on histories known to be right and wrong, and beside a search through all orders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.ports import Versioned
from slotreeve_conformance.linearizability import (
    ABSENT,
    Operation,
    Outcome,
    StoreRead,
    StoreWrite,
    carried_out,
    unlinearizable,
)
from slotreeve_conformance.properties import PROPERTY

NEVER = math.inf


def read(version: int, value: bytes, called: float, answered: float, term: int = 1, key: str = "k") -> Operation:
    return Operation(key, StoreRead(Versioned(value, version, term) if version else None), called, answered)


def write(
    value: bytes,
    outcome: int | Outcome,
    called: float,
    answered: float = NEVER,
    *,
    expected: int | None = None,
    term: int = 1,
    key: str = "k",
) -> Operation:
    return Operation(key, StoreWrite(value, expected, term, outcome), called, answered)


LOST = Outcome.UNKNOWN
CONFLICT = Outcome.CONFLICT

RIGHT: dict[str, list[Operation]] = {
    "nothing": [],
    "a read of a key that was never written": [read(0, b"", 1, 2)],
    "a read beside a write that sees it before the writer is answered": [
        write(b"a", 1, 1, 10),
        read(1, b"a", 2, 3),
        read(1, b"a", 4, 5),
    ],
    "a read beside a write that does not see it yet": [write(b"a", 1, 1, 10), read(0, b"", 2, 3), read(1, b"a", 4, 5)],
    "two writers of any version, in either order": [
        write(b"a", 2, 1, 10),
        write(b"b", 1, 2, 9),
        read(2, b"a", 11, 12),
    ],
    "one of two writers of one version wins, and the other is refused": [
        write(b"a", 1, 1, 5, expected=0),
        write(b"b", CONFLICT, 2, 4, expected=0),
        read(1, b"a", 6, 7),
    ],
    "a write without an answer that never takes effect": [write(b"a", LOST, 1), read(0, b"", 2, 3), read(0, b"", 8, 9)],
    "a write without an answer that takes effect much later": [
        write(b"a", LOST, 1),
        read(0, b"", 2, 3),
        write(b"b", 1, 4, 5),
        read(2, b"a", 8, 9),
    ],
    "a version that only a write without an answer explains": [
        write(b"a", LOST, 1),
        write(b"b", LOST, 1),
        write(b"c", 2, 4, 5),
        write(b"d", 4, 6, 7),
    ],
    "a conflict with a write without an answer": [
        write(b"a", LOST, 1, expected=0),
        write(b"b", CONFLICT, 2, 3, expected=0),
        read(1, b"a", 4, 5),
    ],
    "a write without an answer of an old term that takes effect before one of a new term": [
        write(b"a", LOST, 1, term=1),
        write(b"b", 2, 2, 3, term=2),
        read(2, b"b", 4, 5, term=2),
    ],
    "keys do not depend on each other": [
        write(b"a", 1, 1, 2, key="x", term=2),
        write(b"a", 1, 3, 4, key="y", term=1),
        read(0, b"", 5, 6, key="z"),
    ],
    "an answer at the moment of the next call": [write(b"a", 1, 1, 2), read(0, b"", 2, 3)],
}

WRONG: dict[str, tuple[list[Operation], str]] = {
    "a stale read": (
        [write(b"a", 1, 1, 2), write(b"b", 2, 3, 4), read(1, b"a", 5, 6)],
        "a read of version 1 .* does not follow from version 2",
    ),
    "a stale read of nothing": ([write(b"a", 1, 1, 2), read(0, b"", 3, 4)], "a read of nothing .* version 1"),
    "a lost update: two writers that expected the same version are both answered": (
        [
            write(b"a", 1, 1, 2),
            write(b"b", 2, 3, 6, expected=1),
            write(b"c", 2, 4, 7, expected=1),
        ],
        "expecting version 1: version 2",
    ),
    "two winners of one version": (
        [write(b"a", 1, 1, 5), write(b"b", 1, 2, 6)],
        "a write of b'b' .* does not follow from version 1",
    ),
    "a write that vanishes after a read has seen it": (
        [write(b"a", LOST, 1), read(1, b"a", 2, 3), read(0, b"", 4, 5)],
        "a read of nothing .* does not follow from version 1",
    ),
    "an acknowledged write that vanishes": ([write(b"a", 1, 1, 2), write(b"b", 1, 3, 4)], "version 1"),
    "two reads one after the other that see two writes in both orders": (
        [
            write(b"a", LOST, 1),
            write(b"b", LOST, 1),
            read(2, b"a", 2, 3),
            read(1, b"b", 4, 5),
        ],
        "a read of version 1",
    ),
    "a value that nobody wrote": ([write(b"a", 1, 1, 2), read(1, b"z", 3, 4)], "b'z'"),
    "the value of another version": (
        [write(b"a", 1, 1, 2), write(b"b", 2, 3, 4), read(2, b"a", 5, 6)],
        r"version 2 \(b'a'",
    ),
    "a version that is skipped": ([write(b"a", 1, 1, 2), write(b"b", 3, 3, 4)], "version 3"),
    "a conflict although the expected version is stored": (
        [write(b"a", 1, 1, 2), write(b"b", CONFLICT, 3, 4, expected=1)],
        "conflict",
    ),
    "a conflict with a write that never was": (
        [write(b"a", LOST, 1, expected=0), write(b"b", CONFLICT, 2, 3, expected=0), read(0, b"", 4, 5)],
        "a read of nothing",
    ),
    "a conditional write that is answered although another version is stored": (
        [write(b"a", 1, 1, 2), write(b"b", 2, 3, 4, expected=0)],
        "expecting version 0",
    ),
    "a write of an old term after one of a new term": (
        [write(b"a", 1, 1, 2, term=2), write(b"b", 2, 3, 4, term=1)],
        "in term 1",
    ),
    "a write without an answer that takes effect before its call": (
        [read(1, b"a", 1, 2), write(b"a", LOST, 3)],
        "does not follow from nothing",
    ),
    "a write without an answer that takes effect twice": (
        [write(b"a", LOST, 1), read(1, b"a", 2, 3), write(b"b", 2, 4, 5), read(3, b"a", 6, 7)],
        "a read of version 3",
    ),
    "a write without an answer of an old term that takes effect after one of a new term": (
        [write(b"a", LOST, 1, term=1), write(b"b", 1, 2, 3, term=2), read(2, b"a", 4, 5, term=1)],
        "a read of version 2",
    ),
    "one wrong key among right ones": (
        [write(b"a", 1, 1, 2, key="x"), read(1, b"a", 3, 4, key="x"), read(1, b"a", 3, 4, key="y")],
        "^'y': ",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_history_passes(name: str) -> None:
    assert unlinearizable(RIGHT[name]) is None


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_refused_with_the_operation_that_does_not_fit(name: str) -> None:
    history, text = WRONG[name]
    with pytest.raises(AssertionError, match=text):
        assert (problem := unlinearizable(history)) is None, problem


def test_the_order_of_the_list_does_not_matter() -> None:
    for history in RIGHT.values():
        assert unlinearizable(reversed(history)) is None
    for history, _text in WRONG.values():
        assert unlinearizable(reversed(history)) is not None


def test_a_long_history_with_many_writes_without_answers_is_checked_quickly() -> None:
    history = []
    for number in range(2_000):
        begin = 10.0 * number
        history.append(write(b"%d" % number, number + 1, begin, begin + 15, expected=number))
        history.append(write(b"lost %d" % number, LOST, begin + 1, expected=number))
        history.append(write(b"refused %d" % number, CONFLICT, begin + 16, begin + 17, expected=number))
    assert unlinearizable(history) is None
    assert unlinearizable([*history, read(7, b"6", 1_000_000, 1_000_001)]) is not None


# --- beside a search through all orders ------------------------------------------------------------------------------


def is_linearizable_by_brute_force(history: Sequence[Operation]) -> bool:
    """Whether some order of the answered operations and any of the others fits all calls, answers and results."""
    answered = [each for each in history if not is_lost(each)]
    lost = [each for each in history if is_lost(each)]
    for count in range(len(lost) + 1):
        for some in itertools.combinations(lost, count):
            if any(fits(order) for order in itertools.permutations([*answered, *some])):
                return True
    return False


def is_lost(operation: Operation) -> bool:
    return isinstance(operation.action, StoreWrite) and operation.action.outcome is LOST


def fits(order: Sequence[Operation]) -> bool:
    held: dict[str, Versioned] = {}
    for index, operation in enumerate(order):
        if any(later.answered < operation.called and not is_lost(later) for later in order[index + 1 :]):
            return False
        after = carried_out(held.get(operation.key, ABSENT), operation.action)
        if after is None:
            return False
        held[operation.key] = after
    return True


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """Of a store that is right, with a few results changed."""
    held: dict[str, Versioned] = {}
    history = []
    for moment in range(draw(st.integers(1, 6))):
        key = draw(st.sampled_from(["x", "x", "y"]))
        now = held.get(key, ABSENT)
        called, answered = moment - draw(st.integers(0, 3)), moment + draw(st.integers(0, 3)) + 0.5
        action = draw(actions(now, moment))
        after = carried_out(now, action)
        if after is not None and not (is_lost(Operation(key, action, 0)) and draw(st.booleans())):
            held[key] = after
        if draw(st.integers(0, 7)) == 0:
            action = draw(actions(Versioned(b"%d" % (moment - 1), draw(st.integers(0, 3)), 1), moment))
        history.append(Operation(key, action, called, answered))
    return draw(st.permutations(history))


def actions(now: Versioned, moment: int) -> st.SearchStrategy[StoreRead | StoreWrite]:
    reads = st.just(StoreRead(now if now.version else None))
    expected = st.sampled_from([None, now.version, now.version, now.version + 1])
    terms = st.sampled_from([now.term, 1, 2])
    outcomes = st.sampled_from([now.version + 1, now.version + 1, LOST, CONFLICT])
    return st.one_of(reads, st.builds(StoreWrite, st.just(b"%d" % moment), expected, terms, outcomes))


VERDICTS: list[bool] = []


@settings(PROPERTY, max_examples=500)
@given(histories())
def _the_verdict_is_that_of_a_search_through_all_orders(history: list[Operation]) -> None:
    verdict = is_linearizable_by_brute_force(history)
    VERDICTS.append(verdict)
    assert (unlinearizable(history) is None) is verdict


def test_the_verdict_is_that_of_a_search_through_all_orders_and_both_verdicts_come() -> None:
    VERDICTS.clear()
    _the_verdict_is_that_of_a_search_through_all_orders()
    assert min(VERDICTS.count(True), VERDICTS.count(False)) > len(VERDICTS) / 10
