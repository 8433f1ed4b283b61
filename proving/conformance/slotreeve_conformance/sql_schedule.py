"""What happens to single statements between a node and its database: rules, and the statements that they stopped.

A schedule does no I/O. Whoever stands between the nodes and the database tells it of every statement twice: when it was
sent, and when the database has answered it. The schedule says whether the statement, or the answer, goes on.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from enum import Enum, auto

PATIENCE_SECONDS = 20.0


class Moment(Enum):
    """Where a statement is."""

    REQUEST = auto()
    """It was sent, and has not reached the database."""
    ANSWER = auto()
    """The database has carried it out or refused it, and the answer has not reached the node."""


class Action(Enum):
    """What a rule does with a statement that it stops."""

    HOLD = auto()
    """It waits until it is let go on or cut."""
    DELAY = auto()
    """It goes on after a time."""
    CUT = auto()
    """It is lost, and its connection ends."""


@dataclass(frozen=True)
class Statement:
    """A statement of a node, as it is sent to the database; ``connection`` tells the node's connections apart."""

    node: str
    text: str
    moment: Moment = Moment.REQUEST
    connection: int = 0

    def __str__(self) -> str:
        return f"{self.node} {'>' if self.moment is Moment.REQUEST else '<'} {' '.join(self.text.split())}"


class Halt:
    """A statement that a rule has stopped.

    Attributes:
        statement: the statement.
    """

    def __init__(self, statement: Statement, seconds: float | None = None) -> None:
        """``seconds``: after which it goes on by itself."""
        self.statement = statement
        self._seconds = seconds
        self._goes_on: bool | None = None
        self._decided = asyncio.Event()

    def go_on(self) -> None:
        """Let it pass."""
        self._decide(True)

    def cut(self) -> None:
        """Lose it, with its connection."""
        self._decide(False)

    async def passes(self) -> bool:
        """Wait until it is decided whether the statement goes on."""
        if self._goes_on is None and self._seconds is not None:
            await asyncio.sleep(self._seconds)
            self._decide(True)
        await self._decided.wait()
        return bool(self._goes_on)

    def _decide(self, goes_on: bool) -> None:
        if self._goes_on is None:
            self._goes_on = goes_on
            self._decided.set()


@dataclass(frozen=True)
class Stop:
    """Which statements a rule stops.

    Attributes:
        node: whose; None: of all nodes.
        pattern: regular expression that is found in their text, in any case.
        moment: where it stops them.
        nth: the first so many minus one pass, counted from the rule's beginning.
        times: how many it stops; None: all from then on.
        connection: on which they are sent; None: on any.
    """

    node: str | None
    pattern: str
    moment: Moment = Moment.REQUEST
    nth: int = 1
    times: int | None = 1
    connection: int | None = None

    def matches(self, statement: Statement) -> bool:
        """Whether the rule looks at this statement at all."""
        return (
            self.node in (None, statement.node)
            and self.moment is statement.moment
            and self.connection in (None, statement.connection)
            and re.search(self.pattern, statement.text, re.IGNORECASE | re.DOTALL) is not None
        )


class Rule:
    """One rule of a schedule.

    Attributes:
        is_over: it stops nothing any more.
    """

    def __init__(self, stop: Stop, action: Action, seconds: float = 0.0) -> None:
        """``seconds``: of a delay."""
        self._stop, self._action, self._seconds = stop, action, seconds
        self._seen = 0
        self.is_over = False
        self._halts: list[Halt] = []
        self._unread: asyncio.Queue[Halt] = asyncio.Queue()

    def meet(self, statement: Statement) -> Halt | None:
        """The statement, stopped; None where it is not one of the rule's."""
        if self.is_over or not self._stop.matches(statement):
            return None
        self._seen += 1
        since = self._seen - self._stop.nth
        if since < 0 or (self._stop.times is not None and since >= self._stop.times):
            return None
        halt = Halt(statement, self._seconds if self._action is Action.DELAY else None)
        if self._action is Action.CUT:
            halt.cut()
        self._halts.append(halt)
        self._unread.put_nowait(halt)
        return halt

    @property
    def has_unread(self) -> bool:
        """Whether :meth:`reached` returns at once."""
        return not self._unread.empty()

    async def reached(self, within_seconds: float = PATIENCE_SECONDS) -> Halt:
        """Wait until the rule stops a statement; the next call waits for the next one.

        Raises:
            AssertionError: it stopped none in time.
        """
        try:
            async with asyncio.timeout(within_seconds):
                return await self._unread.get()
        except TimeoutError:
            raise AssertionError(f"{self._stop}: no such statement within {within_seconds:g} s") from None

    def end(self) -> None:
        """Stop nothing any more, and let go on what is held."""
        self.is_over = True
        for halt in self._halts:
            halt.go_on()


class Schedule:
    """The rules for all nodes of a cluster. The oldest rule that stops a statement decides.

    Attributes:
        log: every statement that was sent or answered, in order.
    """

    def __init__(self) -> None:
        self.log: list[Statement] = []
        self._rules: list[Rule] = []

    def hold(self, stop: Stop) -> Rule:
        """Hold these statements until they are let go on or cut."""
        return self._add(Rule(stop, Action.HOLD))

    def delay(self, stop: Stop, seconds: float) -> Rule:
        """Let these statements go on after a time."""
        return self._add(Rule(stop, Action.DELAY, seconds))

    def cut(self, stop: Stop) -> Rule:
        """Lose these statements, each with its connection."""
        return self._add(Rule(stop, Action.CUT))

    def meet(self, statement: Statement) -> Halt | None:
        """A statement was sent or answered; the halt if a rule stops it."""
        self.log.append(statement)
        self._rules = [rule for rule in self._rules if not rule.is_over]
        return next((halt for rule in self._rules if (halt := rule.meet(statement)) is not None), None)

    def connection(self, node: str, pattern: str) -> int:
        """The connection on which the node last sent a statement of this pattern.

        Raises:
            AssertionError: it sent none.
        """
        stop = Stop(node, pattern)
        found = next((each.connection for each in reversed(self.log) if stop.matches(each)), None)
        assert found is not None, f"{node} has sent no statement like {pattern!r}"
        return found

    def clear(self) -> None:
        """End all rules."""
        rules, self._rules = self._rules, []
        for rule in rules:
            rule.end()

    def _add(self, rule: Rule) -> Rule:
        self._rules.append(rule)
        return rule
