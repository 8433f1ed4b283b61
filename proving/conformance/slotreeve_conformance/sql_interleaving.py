"""Two nodes whose statements reach the database in a given order."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from slotreeve_conformance.sql_schedule import PATIENCE_SECONDS, Moment, Rule, Schedule, Statement, Stop

ROW = r"FOR UPDATE|^UPDATE|^INSERT"
"""Statements that wait while a transaction of the other node holds the cluster's row."""

POLL_SECONDS = 0.001


def orders(first: int, second: int) -> Iterator[tuple[bool, ...]]:
    """All orders of so many statements of two nodes; True is one of the first node."""
    for places in itertools.combinations(range(first + second), first):
        yield tuple(place in places for place in range(first + second))


class Interleaving:
    """Holds every statement of two nodes, and lets them go on in an order."""

    def __init__(self, schedule: Schedule, nodes: tuple[str, str], pattern: str) -> None:
        """``pattern``: of statements that each node has sent on the connection that is ruled; others go on freely."""
        self._schedule, self._nodes = schedule, nodes
        self._every = {
            node: Stop(node, "", times=None, connection=schedule.connection(node, pattern)) for node in nodes
        }
        self._sent = {node: schedule.hold(every) for node, every in self._every.items()}
        self._answered: dict[str, Rule] = {}
        self._blocked: set[str] = set()
        self._holder: str | None = None
        self.played: list[Statement] = []

    async def play(self, order: Sequence[bool], is_done: Callable[[str], bool]) -> None:
        """Let the statements go on in this order, each after the answer to the one before; then let all go on.

        A statement that waits for the row in the database is answered later: the order goes on without its answer, and
        the places of its node are the other one's until then. ``is_done``: whether the node has nothing more to send.

        Raises:
            AssertionError: a node that is not done sent nothing for long.
        """
        for is_first in order:
            node = self._nodes[0 if is_first else 1]
            await self._collect(node)
            if node not in self._blocked:
                await self._let_go(node, is_done)
        self.end()

    def end(self) -> None:
        """Hold nothing any more."""
        for rule in (*self._sent.values(), *self._answered.values()):
            rule.end()

    async def _let_go(self, node: str, is_done: Callable[[str], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._sent[node].has_unread:
                if is_done(node):
                    return
                await asyncio.sleep(POLL_SECONDS)
        halt = await self._sent[node].reached()
        self.played.append(halt.statement)
        self._answered[node] = self._schedule.hold(replace(self._every[node], moment=Moment.ANSWER, times=1))
        halt.go_on()
        if self._holder not in (None, node) and re.search(ROW, halt.statement.text):
            self._blocked.add(node)
        else:
            await self._take_answer(node)

    async def _collect(self, node: str) -> None:
        """The answer that the node still waits for, if the row is free by now."""
        if node in self._blocked and self._holder in (None, node):
            self._blocked.discard(node)
            await self._take_answer(node)

    async def _take_answer(self, node: str) -> None:
        answer = await self._answered[node].reached()
        text = answer.statement.text
        if re.search(r"\b(COMMIT|ROLLBACK)$", text):
            self._holder = None if self._holder == node else self._holder
        elif re.search(r"FOR UPDATE", text):
            self._holder = node
        answer.go_on()
