"""Clients of the meta state, and the history of what they did and saw."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from slotreeve.errors import ElectionError, StaleTerm, VersionConflict
from slotreeve.ports import Election

from slotreeve_conformance.linearizability import Operation, Outcome, StoreRead, StoreWrite, unlinearizable

KEYS = ("a", "b", "c")
READS = 0.35
"""Share of the operations that are reads."""
LARGE_VALUE = 1_500
"""Bytes of a value that needs several sectors of a disk."""
MOST_LEFT_OPEN = 40
"""No client writes any more once so many writes of the history have no answer: the check would take too long."""


class RecordedHistory:
    """Reads and writes through elections, with the order of all calls and answers. Used on one event loop.

    Calls and answers are numbered, so that the order is exact although many have the same virtual time.

    Attributes:
        operations: the history so far.
        unanswered: number of writes of which it is not known whether they were stored.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.unanswered = 0
        self._moment = 0

    def read(self, election: Election, key: str) -> int:
        """Read, and return the version. Call it only while the node holds the lease of a leader."""
        called = self._next_moment()
        seen = election.state.read(key)
        self.operations.append(Operation(key, StoreRead(seen), called, self._next_moment()))
        return 0 if seen is None else seen.version

    async def write(
        self, election: Election, key: str, value: bytes, expected_version: int | None, term: int, seconds: float
    ) -> None:
        """Write; give up after so many seconds."""
        called = self._next_moment()
        outcome: int | Outcome | None = Outcome.UNKNOWN
        try:
            async with asyncio.timeout(seconds):
                outcome = await election.state.write(key, value, expected_version, term)
        except VersionConflict:
            outcome = Outcome.CONFLICT
        except StaleTerm:
            outcome = None  # refused for certain; this says nothing about the key
        except (ElectionError, TimeoutError):
            pass  # it may or may not be stored
        finally:
            if outcome is not None:
                self.unanswered += outcome is Outcome.UNKNOWN
                action = StoreWrite(value, expected_version, term, outcome)
                self.operations.append(Operation(key, action, called, self._next_moment()))

    def problem(self) -> str | None:
        """Why the history is not linearizable; None if it is."""
        return unlinearizable(self.operations)

    def _next_moment(self) -> int:
        self._moment += 1
        return self._moment


class RecordedClient:
    """One client: it reads and writes through a node that leads, one operation after the other."""

    def __init__(
        self, name: str, leaders: Callable[[], Sequence[Election]], history: RecordedHistory, rng: random.Random
    ) -> None:
        """``leaders``: the nodes that take themselves for the leader, hold its lease and run now."""
        self._name, self._leaders, self._history, self._rng = name, leaders, history, rng
        self._versions: dict[str, int] = {}
        self._count = 0

    async def run(self, pause_seconds: float, give_up_seconds: float) -> None:
        """Until it is cancelled. ``pause_seconds``: the longest pause between two operations."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.0, pause_seconds))
            if leaders := self._leaders():
                await self._operate(self._rng.choice(leaders), give_up_seconds)

    async def _operate(self, election: Election, give_up_seconds: float) -> None:
        key = self._rng.choice(KEYS)
        if self._rng.random() < READS or self._history.unanswered >= MOST_LEFT_OPEN:
            self._versions[key] = self._history.read(election, key)
            return
        self._count += 1
        term = election.leadership().term - (self._rng.random() < 0.05)
        value = f"{self._name}-{self._count}".encode() + b"." * self._rng.choice([0, 0, 0, LARGE_VALUE])
        await self._history.write(election, key, value, self._expected(election, key), term, give_up_seconds)

    def _expected(self, election: Election, key: str) -> int | None:
        """Mostly the version that the client read a moment or longer ago; sometimes any."""
        chance = self._rng.random()
        if chance < 0.5:
            self._versions[key] = self._history.read(election, key)
        return None if chance > 0.85 else self._versions.get(key, 0)
