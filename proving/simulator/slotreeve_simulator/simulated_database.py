"""A database server in memory, on the caller's clock, for the lock election in tests and simulation.

It can have outages, slow answers, commits that stall, and restarts.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from slotreeve.clock import Clock
from slotreeve.ports import Versioned


class NamedLockWaiter(Protocol):
    """A connection that waits for the named lock or holds it."""

    @property
    def node(self) -> str:
        """The node whose connection it is."""

    def die(self) -> None:
        """The process of the node was killed."""


@dataclass
class StoredRow:
    """The lock row."""

    owner: str
    duration_ms: int
    term: int
    term_duration: int
    modified: float


class SimulatedDatabase:
    """The database server. Its time is that of ``clock``, not that of the nodes' clocks.

    Attributes:
        delay_seconds: travel time of a statement and of its result; called for each.
        commit_seconds: how long the COMMIT of a write takes; called for each. Its transaction holds the row meanwhile,
            whether its client still waits or not.
        is_down: statements fail at once.
        is_silent: statements are carried out, but get no result.
        is_read_only: statements that change something fail.
        cut_off: nodes that cannot reach the database.
        statements: number of statements that were carried out.
        row: the stored row; None if there is none. Tests may change it.
        history: which history of the meta state was accepted.
        violations: writes that must not have been made.
        server: the name of the server; another one after a fail-over to a replica.
    """

    def __init__(self, clock: Clock, place: str = "the simulated database") -> None:
        self.clock, self.place = clock, place
        self.delay_seconds: Callable[[], float] = lambda: 0.0
        self.commit_seconds: Callable[[], float] = lambda: 0.0
        self.row_lock = asyncio.Lock()
        self.is_down = self.is_silent = self.is_read_only = False
        self.cut_off: set[str] = set()
        self.notifiers: list[NamedLockWaiter] = []
        self.statements = 0
        self.row: StoredRow | None = None
        self.state: dict[str, tuple[int, Versioned]] = {}
        self.history, self.server = "", "primary"
        self.violations: list[str] = []
        self.notifier_lock = asyncio.Lock()
        self._epoch = 0

    def restart(self) -> None:
        """End every connection. Committed changes stay."""
        self._epoch += 1
        self.notifier_lock = asyncio.Lock()

    def back_up(self, keeps_row: bool = False) -> Callable[[], None]:
        """Keep a copy of row and state as they are now; the function that is returned sets the database back to it, by
        a restart. ``keeps_row``: only the state is set back, and connections stay, as where the copy was made since the
        last renewal."""
        row, state, history = None if self.row is None else replace(self.row), dict(self.state), self.history

        def restore() -> None:
            self.state, self.history = state, history
            if not keeps_row:
                self.row = row
                self.restart()

        return restore

    def replicate(self) -> Callable[[], None]:
        """Keep a copy as of now on a replica; the function that is returned lets the replica take over. What was
        committed meanwhile is lost, since the replica lags behind."""
        restore = self.back_up()

        def promote() -> None:
            restore()
            self.server += "+"

        return promote

    def is_reachable(self, node: str) -> bool:
        """Whether statements of ``node`` reach the database."""
        return not self.is_down and node not in self.cut_off

    def hang_up(self, node: str) -> None:
        """The process of ``node`` was killed: its connections end, and with them its named lock or its wait for it."""
        for notifier in [each for each in self.notifiers if each.node == node]:
            self.notifiers.remove(notifier)
            notifier.die()

    def commit(self, change: Callable[[], None]) -> asyncio.Future[None] | None:
        """Make a change visible, and then free the row, which the caller has locked.

        It happens whether the caller waits for what is returned or not. None: it has happened.
        """
        seconds = self.commit_seconds()
        if seconds <= 0:
            change()
            self.row_lock.release()
            return None

        done = asyncio.get_running_loop().create_future()

        def finish() -> None:
            change()
            self.row_lock.release()
            done.set_result(None)

        self.clock.call_later(seconds, finish)  # not a task, which would end with the process that began it
        return done

    @property
    def epoch(self) -> int:
        """Number of restarts."""
        return self._epoch

    def remaining_ms(self, row: StoredRow) -> int:
        """Milliseconds until the row expires, by the database's clock, rounded up."""
        return math.ceil((row.modified - self.clock.now()) * 1000) + row.duration_ms

    @property
    def newest(self) -> tuple[int, int]:
        """Revision and term of the newest change."""
        return max(((revision, held.term) for revision, held in self.state.values()), default=(0, 0))
