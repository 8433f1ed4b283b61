"""Whether a history of concurrent reads and writes of a versioned store can be put into one order. Pure.

A history is linearizable if every operation can be given one moment between its call and its answer, so that the
operations, carried out one after the other at these moments, have the results that were seen (Herlihy and Wing,
"Linearizability", 1990). The search is Wing and Gong's ("Testing and Verifying Concurrent Objects", 1993) in the form
of Lowe's just-in-time linearization ("Testing for Linearizability", 2017): calls and answers are gone through in the
order of their times, and an operation is put in its place when an answer needs it. Each key is checked alone, since a
history is linearizable exactly if its part for every key is.

The store is the meta state of the elections (:class:`slotreeve.ports.MetaState`): a write expects a version, or any,
adds one to it, and is refused under a term that is lower than that of the value. A history without terms has 0
everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from slotreeve.ports import Versioned

ABSENT = Versioned(b"", 0, 0)
"""What a key holds that was never written."""
LONGEST_SHOWN = 24
"""Bytes of a value that a message shows."""


class Outcome(Enum):
    """The result of a write that has no version."""

    CONFLICT = auto()
    """Refused: another version was stored than the expected one."""
    UNKNOWN = auto()
    """No answer: it takes effect at any later time, or never."""


@dataclass(frozen=True)
class StoreRead:
    """A read; ``seen``: its result, None where the key had never been written."""

    seen: Versioned | None

    def __str__(self) -> str:
        return "a read of nothing" if self.seen is None else f"a read of {_text(self.seen)}"


@dataclass(frozen=True)
class StoreWrite:
    """A write.

    Attributes:
        expected_version: see :meth:`slotreeve.ports.MetaState.write`.
        term: of the writer.
        outcome: the version that it made, or why there is none.
    """

    value: bytes
    expected_version: int | None
    term: int
    outcome: int | Outcome

    def __str__(self) -> str:
        outcome = f"version {self.outcome}" if isinstance(self.outcome, int) else self.outcome.name.lower()
        expected = "any version" if self.expected_version is None else f"version {self.expected_version}"
        return f"a write of {_short(self.value)} in term {self.term} expecting {expected}: {outcome}"


@dataclass(frozen=True)
class Operation:
    """One operation of one client.

    Attributes:
        called, answered: times on one clock. Operations are concurrent unless one was answered before the other was
            called. The time of an answer that never came is infinity.
    """

    key: str
    action: StoreRead | StoreWrite
    called: float
    answered: float = math.inf

    def __str__(self) -> str:
        until = "never answered" if self.answered == math.inf else f"answered {self.answered:g}"
        return f"{self.action} (called {self.called:g}, {until})"


@dataclass(frozen=True)
class _Order:
    """One way to put the operations in order so far: what is stored then, and which of the pending ones are done."""

    held: Versioned
    done: frozenset[int]


def unlinearizable(history: Iterable[Operation]) -> str | None:
    """Why no order of the operations explains their results; None where one does.

    A write with the outcome UNKNOWN counts as pending for ever, whatever time ``answered`` has.
    """
    by_key: dict[str, list[Operation]] = {}
    for operation in history:
        by_key.setdefault(operation.key, []).append(operation)
    problems = ((key, _problem(by_key[key])) for key in sorted(by_key))
    return next((f"{key!r}: {problem}" for key, problem in problems if problem is not None), None)


def carried_out(held: Versioned, action: StoreRead | StoreWrite) -> Versioned | None:
    """What is stored after the action; None where it cannot have had its result then."""
    if isinstance(action, StoreRead):
        return held if held == (action.seen or ABSENT) else None
    fits = action.expected_version in (None, held.version)
    if action.outcome is Outcome.CONFLICT:
        return None if fits else held
    if not fits or action.term < held.term or action.outcome not in (Outcome.UNKNOWN, held.version + 1):
        return None
    return Versioned(action.value, held.version + 1, action.term)


def _is_too_late(held: Versioned, action: StoreRead | StoreWrite) -> bool:
    """Whether the action can have its result neither now nor later, since versions and terms only rise."""
    if isinstance(action, StoreRead):
        return held.version > (action.seen or ABSENT).version
    if action.outcome is Outcome.CONFLICT:
        return False
    if isinstance(action.outcome, int) and held.version >= action.outcome:
        return True
    return held.term > action.term or (action.expected_version is not None and held.version > action.expected_version)


def _problem(operations: Sequence[Operation]) -> str | None:
    """Why one key's history is not linearizable."""
    pending: dict[int, Operation] = {}
    orders = {_Order(ABSENT, frozenset())}
    for index, is_answer in _events(operations):
        if not is_answer:
            pending[index] = operations[index]
            continue
        before, orders = orders, set().union(*(_orders_with(index, order, pending) for order in orders))
        if not orders:
            states = " or ".join(sorted({_text(order.held) for order in before}))
            others = "; ".join(str(each) for other, each in pending.items() if other != index) or "none"
            return f"{operations[index]} does not follow from {states}; other operations under way: {others}"
        del pending[index]
        for other in [other for other in pending if _is_over(pending[other].action, orders)]:
            del pending[other]
        orders = {_Order(order.held, order.done.intersection(pending)) for order in orders}
    return None


def _events(operations: Sequence[Operation]) -> list[tuple[int, bool]]:
    """Calls and answers by time: the operation's index, and whether it is the answer. A call comes before an answer of
    the same time, as if the two operations were concurrent."""
    events = []
    for index, operation in enumerate(operations):
        events.append((operation.called, False, index))
        if not (isinstance(operation.action, StoreWrite) and operation.action.outcome is Outcome.UNKNOWN):
            events.append((operation.answered, True, index))
    return [(index, is_answer) for _, is_answer, index in sorted(events)]


def _orders_with(target: int, order: _Order, pending: dict[int, Operation]) -> set[_Order]:
    """The orders that follow this one by some of the pending operations and then the target."""
    if target in order.done:
        return {order}
    found: set[_Order] = set()
    seen, unexplored = {order}, [order]
    while unexplored:
        now = unexplored.pop()
        if _is_too_late(now.held, pending[target].action):
            continue
        for index, operation in pending.items():
            held = None if index in now.done else carried_out(now.held, operation.action)
            if held is None:
                continue
            after = _Order(held, now.done | {index})
            if index == target:
                found.add(after)
            elif after not in seen:
                seen.add(after)
                unexplored.append(after)
    return found


def _is_over(action: StoreRead | StoreWrite, orders: set[_Order]) -> bool:
    """Whether the action has no answer, and can have no effect any more."""
    return _is_unanswered(action) and all(_is_too_late(order.held, action) for order in orders)


def _is_unanswered(action: StoreRead | StoreWrite) -> bool:
    return isinstance(action, StoreWrite) and action.outcome is Outcome.UNKNOWN


def _text(held: Versioned) -> str:
    return f"version {held.version} ({_short(held.value)}, term {held.term})" if held.version else "nothing"


def _short(value: bytes) -> str:
    return repr(value) if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]!r}..."
