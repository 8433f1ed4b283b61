"""Nodes of the lock election and one row, without a database or clocks: what the transcripts are played on.

Commands, one a line:

    start a b               processes start
    crash a                 a process is killed
    cut a                   the database does not answer node a any more
    reconnect a             it answers again
    wait 5                  seconds pass, and nodes whose deadline comes are stepped
    resign a                a node gives up leadership
    notify b                a node is notified that the row may have changed
    show                    the row, and what each node does

The lease is 5 s, a renewal is due every second, and the row's clock is that of the nodes. Renewals that succeed, and
looks at a row that another node holds, are not shown.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slotreeve_election_mysql.events import (
    Alarm,
    Answer,
    Effect,
    Event,
    Insert,
    Inserted,
    Load,
    Loaded,
    Look,
    Looked,
    Notified,
    Release,
    Released,
    Renew,
    Renewed,
    Request,
    StatementFailed,
    TakeOver,
    TookOver,
)
from slotreeve_election_mysql.machine import Machine
from slotreeve_election_mysql.sql_table import SqlRow
from slotreeve_election_mysql.timing import LockTiming
from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.leadership import LeadershipChanged, Noted, ResignAsked

TIMING = LockTiming(lease=5.0, renew=1.0, timeout=1.0)


@dataclass(frozen=True)
class StoredRow:
    owner: str
    term: int
    term_duration: int
    expires_at: float


class ScriptedRivals:
    """Plays the commands; :meth:`play` is what a transcript is given."""

    def __init__(self) -> None:
        self._now = 0.0
        self._row: StoredRow | None = None
        self._machines: dict[str, Machine] = {}
        self._cut_off: set[str] = set()
        self._lines: list[str] = []

    def play(self, command: str) -> str:
        """Carry out the commands; what came of them."""
        self._lines = []
        for line in command.splitlines():
            name, *words = line.split()
            handler: Callable[[Sequence[str]], None] = getattr(self, f"_{name}")
            handler(words)
        return "\n".join(self._lines) or "(nothing)"

    # --- commands ----------------------------------------------------------------------------------------------------

    def _start(self, words: Sequence[str]) -> None:
        for name in words:
            self._machines[name] = Machine(name, False, TIMING, random.Random(name))
            self._step(name, Started(), "starts")

    def _crash(self, words: Sequence[str]) -> None:
        del self._machines[words[0]]

    def _cut(self, words: Sequence[str]) -> None:
        self._cut_off.update(words)

    def _reconnect(self, words: Sequence[str]) -> None:
        self._cut_off.difference_update(words)

    def _wait(self, words: Sequence[str]) -> None:
        until = self._now + float(words[0])
        while (due := min(machine.deadline for machine in self._machines.values())) <= until:
            self._now = max(self._now, due)
            for name, machine in sorted(self._machines.items()):
                if machine.deadline <= self._now:
                    self._step(name, Tick(), "has waited")
        self._now = until

    def _resign(self, words: Sequence[str]) -> None:
        self._step(words[0], ResignAsked(), "is to resign")

    def _notify(self, words: Sequence[str]) -> None:
        self._step(words[0], Notified(), "is notified")

    def _show(self, _words: Sequence[str]) -> None:
        row = self._row
        if row is None:
            self._lines.append(f"time {self._now:.2f}, no row")
        else:
            left = row.expires_at - self._now
            state = f"expires in {left:.2f} s" if left > 0 else "has expired"
            self._lines.append(f"time {self._now:.2f}, row: owner {row.owner or 'nobody'}, term {row.term}, {state}")
        for name, machine in sorted(self._machines.items()):
            lease = f", may act until {machine.valid_until:.2f}" if machine.valid_until else ""
            self._lines.append(f"  {name} {machine._role.name.lower()}{lease}")

    # --- stepping ----------------------------------------------------------------------------------------------------

    def _step(self, name: str, event: Event, what: str) -> None:
        """Step one node, and with the answers to its requests until it has none."""
        next_event: Event | None = event
        while next_event is not None:
            effects = self._machines[name].step(next_event, self._now)
            shown = [effect for effect in effects if not self._is_routine(name, effect)]
            if shown or isinstance(next_event, Started | ResignAsked | Notified):
                self._lines.append(f"{self._now:.2f} {name} {what}")
                self._lines.extend(f"    {described(effect)}" for effect in shown)
            requests = [effect for effect in effects if not isinstance(effect, LeadershipChanged | Noted | Alarm)]
            next_event = None
            for request in requests:
                next_event = answer = self._answer(name, request)
                what = learned(answer)

    def _is_routine(self, name: str, effect: Effect) -> bool:
        row = self._row
        if row is None or name in self._cut_off or row.expires_at <= self._now:
            return False
        return isinstance(effect, Renew if row.owner == name else Look)

    def _answer(self, name: str, request: Request) -> Answer:
        if name in self._cut_off:
            return StatementFailed("no answer within 1 s")
        row, expires_at = self._row, self._now + TIMING.lease
        match request:
            case Look():
                if row is None:
                    return Looked(None, False)
                remaining = round((row.expires_at - self._now) * 1000)
                return Looked(SqlRow(row.owner, row.term, row.term_duration, remaining), False)
            case Insert(term):
                self._row = row or StoredRow("", term, 0, self._now)
                return Inserted()
            case TakeOver(seen, term):
                is_same = row is not None and (row.owner, row.term) == (seen.owner, seen.term)
                if not is_same or (row is not None and row.expires_at > self._now):
                    return TookOver(False, self._now)
                self._row = StoredRow(name, term, 0, expires_at)
                return TookOver(True, self._now)
            case Renew(term, duration):
                if row is None or (row.owner, row.term) != (name, term) or row.expires_at <= self._now:
                    return Renewed(False, self._now)
                self._row = replace(row, term_duration=duration + 1, expires_at=expires_at)
                return Renewed(True, self._now)
            case Release(term):
                if row is not None and (row.owner, row.term) == (name, term):
                    self._row = replace(row, owner="", expires_at=self._now)
                return Released()
            case Load():
                return Loaded()


def learned(answer: Answer) -> str:
    """One answer, for readers."""
    match answer:
        case Looked(None):
            return "finds no row"
        case Looked(row):
            assert row is not None
            state = f"expires in {row.remaining_ms} ms" if row.remaining_ms > 0 else "has expired"
            return f"reads the row: owner {row.owner or 'nobody'}, term {row.term}, {state}"
        case TookOver(won):
            return "owns the row" if won else "was too late"
        case Renewed(done):
            return "has renewed its lease" if done else "could not renew its lease"
        case StatementFailed():
            return "gets no answer"
        case _:
            return {Inserted: "has inserted the row", Released: "has released it", Loaded: "has loaded the meta state"}[
                type(answer)
            ]


def described(effect: Effect) -> str:
    """One effect, for readers."""
    match effect:
        case LeadershipChanged(leader, term, leading, cause):
            known = "no leader is known" if leader is None else "leads" if leading else f"follows {leader}"
            return f"REPORT: {known}, term {term} ({cause})"
        case Noted(text) | Alarm(text):
            return f"note: {text}"
        case TakeOver(seen, term):
            return f"take over from {seen.owner or 'nobody'} in term {seen.term}, for term {term}"
        case Renew(term):
            return f"renew term {term}"
        case Release(term):
            return f"release term {term}"
        case Insert():
            return "insert the row"
        case _:
            return "read the row" if isinstance(effect, Look) else "load the meta state"
