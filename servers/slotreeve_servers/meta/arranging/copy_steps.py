"""The next safe row of a slot on its way to a target: who leads it, who is in sync, who learns.

The six rules are in docs/copies.md. What is committed decides: leader and followers are in sync, so they have every
write that was acknowledged and that nobody can send again; a learner may lack some of them. Pure.

Sources: PacificA (MSR-TR-2008-25), Kafka's in-sync replicas (KIP-497), learners of etcd's raft.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from enum import StrEnum

from slotreeve.model.slots import Move, Slot

NOBODY: frozenset[str] = frozenset()


class CopyStep(StrEnum):
    """What one table changes at a slot. ``docs/copies.md`` draws them."""

    BEGIN = "begin"
    """A server leads a slot that nobody has led."""
    SUCCEED = "succeed"
    """The leader has gone; a follower leads."""
    UNCLEAN = "unclean"
    """No server in sync lives; a learner or an empty server leads."""
    LEAVE = "leave"
    """A follower, or a learner that was ready, which the leader does not reach any more, learns again."""
    PROMOTE = "promote"
    """A learner that the leader has reported as ready follows."""
    HAND_OVER = "hand over"
    """A follower leads; the former leader follows."""
    DROP = "drop"
    """A follower or learner is needed no more, or has gone."""
    LEARN = "learn"
    """A server begins to copy the slot."""


@dataclass(frozen=True)
class CopyReport:
    """What the leader of a slot has reported of its copies, under the present table and its own leader epoch.

    Attributes:
        ready: learners that have everything. From the moment of the report the leader acknowledges nothing that they
            do not have.
        lost: followers without which the leader asks to go on, and learners that were ready and are no more.
        absent: learners that do not come to copy the slot.
    """

    ready: frozenset[str] = NOBODY
    lost: frozenset[str] = NOBODY
    absent: frozenset[str] = NOBODY


NO_REPORT = CopyReport()
Rank = Callable[[str], tuple[int, int, str]]
"""Of several that may lead next, the one of the lowest rank does."""


def by_name(name: str) -> tuple[int, int, str]:
    """The rank where nothing else is known."""
    return 0, 0, name


@dataclass
class RowChange:
    """The next row of a slot, how it comes about, and the steps that lead to it, in order."""

    row: Slot
    moves: list[Move] = field(default_factory=list)
    steps: list[CopyStep] = field(default_factory=list)

    def _note(self, step: CopyStep, kind: str, source: str | None, target: str | None, reason: str) -> None:
        self.steps.append(step)
        self.moves.append(Move(self.row.id, kind, source, target, reason))

    def lead(self, step: CopyStep, name: str, reason: str) -> None:
        """``name`` leads from now on; a former leader that hands over follows."""
        row, former = self.row, self.row.leader
        followers = tuple(n for n in row.followers if n != name)
        learners = tuple(n for n in row.learners if n != name)
        self.row = Slot(row.id, name, row.leader_epoch, followers, learners)
        self._note(step, "leader", former, name, reason)
        if former is not None and step is CopyStep.HAND_OVER:
            self._set((*followers, former), learners)
            self.moves.append(Move(row.id, "follower", None, former, f"it led the slot until {name} took over"))

    def promote(self, name: str, reason: str) -> None:
        """A learner follows."""
        self._set((*self.row.followers, name), tuple(n for n in self.row.learners if n != name))
        self._note(CopyStep.PROMOTE, "follower", None, name, reason)

    def demote(self, name: str, reason: str) -> None:
        """A follower learns, before those that never were in sync: it has more. A learner learns on: the newer table is
        all that its leader waits for."""
        row = self.row
        learners = (name, *(n for n in row.learners if n != name))
        self._set(tuple(n for n in row.followers if n != name), learners)
        self._note(CopyStep.LEAVE, "demote", name, None, reason)

    def drop(self, name: str, reason: str) -> None:
        """A follower or learner holds the slot no more."""
        row = self.row
        self._set(tuple(n for n in row.followers if n != name), tuple(n for n in row.learners if n != name))
        self._note(CopyStep.DROP, "drop", name, None, reason)

    def learn(self, name: str, reason: str) -> None:
        """A server copies the slot."""
        self._set(self.row.followers, (*self.row.learners, name))
        self._note(CopyStep.LEARN, "learn", None, name, reason)

    def _set(self, followers: tuple[str, ...], learners: tuple[str, ...]) -> None:
        self.row = Slot(self.row.id, self.row.leader, self.row.leader_epoch, followers, learners)


def towards(
    row: Slot,
    target: Slot,
    live: Set[str],
    report: CopyReport = NO_REPORT,
    rank: Rank = by_name,
    why: str = "planned",
    unfit: Set[str] = NOBODY,
) -> RowChange:
    """The next row on the way from ``row`` to ``target``.

    Who is in sync changes one step a table: who has gone leaves and who is ready joins; then the lead moves, or those
    beyond the target go, but never so many that fewer than the target's number are left. A wanted server learns at
    once.

    Args:
        row: as committed, with the leader epoch as it is; the caller raises it where the leader changes.
        target: who shall lead and follow; it has no learners.
        live: the servers that hold a lease.
        report: of the leader of ``row``.
        rank: of two that may lead next, and neither of which the target names, the lower one leads.
        why: the reason of the target, for people.
        unfit: those that leave, or may have gone: they stand in for nobody, and others stand in for them.
    """
    change = RowChange(row)
    if row.leader not in live:
        _succeed(change, target, live, rank, why)
    else:
        _leave(change, live, report)
        _promote(change, target, live, report, unfit)
        if target.leader in change.row.followers:
            change.lead(CopyStep.HAND_OVER, target.leader, why)
        else:
            _drop(change, target, why, unfit)
    if change.row.leader in live:
        _follow_target(change, target, live, why)
        _stand_in(change, target, frozenset(live - unfit), report, rank)
    return change


def _succeed(change: RowChange, target: Slot, live: Set[str], rank: Rank, why: str) -> None:
    """Rule 3, or rule 5 where no server in sync lives."""
    row = change.row
    heirs = [name for name in row.followers if name in live]
    learners = [name for name in row.learners if name in live]
    gone = "nobody led it" if row.leader is None else f"{row.leader} left"
    if heirs:
        leader = target.leader if target.leader in heirs else min(heirs, key=rank)
        change.lead(CopyStep.SUCCEED, str(leader), gone)
    elif learners:
        change.lead(CopyStep.UNCLEAN, learners[0], f"{gone}, and no server in sync lives")
    elif target.leader in live:
        is_first = row.leader_epoch == 0
        reason = why if is_first else f"{gone}, and no server with a copy lives"
        change.lead(CopyStep.BEGIN if is_first else CopyStep.UNCLEAN, str(target.leader), reason)
    for name in change.row.followers if change.row.leader in live else ():
        if name not in live:
            change.drop(name, f"{name} left")


def _leave(change: RowChange, live: Set[str], report: CopyReport) -> None:
    """Rule 2: followers that have gone, and holders without which the leader asks to go on."""
    row = change.row
    for name in row.followers:
        if name not in live:
            change.drop(name, f"{name} left")
    for name in row.holders[1:]:
        if name in live and name in report.lost:
            change.demote(name, f"{row.leader} does not reach it")


def _promote(change: RowChange, target: Slot, live: Set[str], report: CopyReport, unfit: Set[str]) -> None:
    """Rule 1. One that stands in for another one follows as long as too few are in sync that stay."""
    for name in change.row.learners:
        is_needed = name in target.holders or len(set(change.row.in_sync) - unfit) < len(target.holders)
        if name in report.ready and name in live and is_needed:
            change.promote(name, "its copy is complete")


def _drop(change: RowChange, target: Slot, why: str, unfit: Set[str]) -> None:
    """Followers beyond the target, as long as enough in sync are left; first those that leave."""
    last_first = change.row.followers[::-1]
    for name in sorted(last_first, key=lambda name: name not in unfit):
        if name not in target.holders and len(change.row.in_sync) > len(target.holders):
            change.drop(name, why)


def _follow_target(change: RowChange, target: Slot, live: Set[str], why: str) -> None:
    """Who is wanted and holds nothing learns. Learners that have gone go. Those that are not wanted go once enough are
    in sync: one that the leader lost a moment ago has more than a new one."""
    before = change.row
    for name in before.learners:
        if name not in live:
            change.drop(name, f"{name} left")
        elif name not in target.holders and len(before.in_sync) >= len(target.holders):
            change.drop(name, why)
    for name in target.holders:
        if name in live and name not in before.holders:
            change.learn(name, why)


def _stand_in(change: RowChange, target: Slot, fit: frozenset[str], report: CopyReport, rank: Rank) -> None:
    """In the place of each that is wanted and does not come to copy the slot, because it does not reach its leader,
    another one learns, too. It goes when that one follows. ``fit``: those that live and stay."""
    row = change.row
    coming = [name for name in row.learners if name not in target.holders or name not in report.absent]
    free = fit.difference(row.holders)
    if report.absent and free and len(fit.intersection(row.in_sync)) + len(coming) < len(target.holders):
        absent = ", ".join(sorted(report.absent))
        change.learn(min(free, key=rank), f"{row.leader} is not reached by {absent}")
