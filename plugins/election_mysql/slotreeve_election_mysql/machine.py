"""The lock election as a state machine: rows and answers in, compare-and-sets and reports out. No I/O, no clock."""

from __future__ import annotations

import random
from enum import Enum, auto

from slotreeve_machines.driver import NEVER, Started, Tick
from slotreeve_machines.leadership import LeadershipChanged, Noted, ResignAsked

from slotreeve_election_mysql.events import (
    Alarm,
    Answer,
    Effect,
    Event,
    Insert,
    Inserted,
    Load,
    Loaded,
    LoadScope,
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
from slotreeve_election_mysql.table import KEPT_FOR, Row, reservation
from slotreeve_election_mysql.timing import SHORTEST_RETRY_SECONDS, LockTiming

SHORTEST_LOOK_SECONDS = 0.02
"""The shortest time between two looks, also where the row has expired already: no node looks without a pause."""


class LockRole(Enum):
    """What this node does."""

    FOLLOWING = auto()
    LOADING = auto()
    """Owner of the row; does not lead before it has read the meta state."""
    LEADING = auto()


class Machine:
    """One process's part in the election.

    The four steps of SOFARegistry's ``MetaJdbcLeaderElector``: insert or read, the owner's renewal, the others'
    compare-and-set after expiry, an observer's read. One request is under way at a time. After one that failed nothing
    is taken for known about the row until it was read again.

    Attributes:
        deadline: when to step with Tick.
        valid_until: end of this node's lease on its own clock; 0 unless it leads. Invariant: never later than the
            moment at which a request that the database carried out was *sent*, plus the lease, minus the margin.
    """

    def __init__(self, owner: str, observe_only: bool, timing: LockTiming, rng: random.Random, term: int = 0) -> None:
        """``owner`` names this process alone: each start of a node has another one. ``term`` was seen before."""
        self._owner, self._observer, self._timing, self._rng = owner, observe_only, timing, rng
        self._role = LockRole.FOLLOWING
        self._is_busy = False
        self._act_at = NEVER
        self._lease_end = 0.0
        self._term_duration = 0
        self._highest_term = term
        self._known: tuple[str | None, int, bool] = (None, term, False)
        self._known_until = NEVER
        self._stands_from = -NEVER
        self._failures, self._reasons = 0, set[str]()
        self._look_again = False
        self._taking = 0
        self._renew_at = NEVER
        self._successor = ""
        self._is_set_back = False
        self._is_doubtful = False
        self._must_load = False
        self._effects: list[Effect] = []

    @property
    def valid_until(self) -> float:  # noqa: D102 - see the class
        return self._lease_end if self._role is LockRole.LEADING else 0.0

    @property
    def deadline(self) -> float:  # noqa: D102 - see the class
        act_at = NEVER if self._is_busy else self._act_at
        return min(act_at, self._known_until if self._role is LockRole.FOLLOWING else self._lease_end)

    def step(self, event: Event, now: float) -> list[Effect]:
        """Take one event; the effects, in order."""
        self._effects = []
        if self._role is not LockRole.FOLLOWING and now >= self._lease_end:
            # Who has led may know what a database that took another one's place meanwhile does not.
            self._is_doubtful |= self._role is LockRole.LEADING
            self._step_down("lease ran out before a renewal was confirmed", now)
        match event:
            case Tick():
                self._tick(now)
            case Notified():
                self._notified()
            case ResignAsked(for_good, to):
                self._successor = to
                self._resign(for_good, now)
            case Started():
                self._ask(Look())
            case _:
                self._answered(event, now)
        return self._effects

    # --- what happens by itself --------------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        if self._role is LockRole.FOLLOWING and now >= self._known_until:
            self._know(None, "the leader's lease ran out")
        if self._is_busy or now < self._act_at:
            return
        if self._role is LockRole.FOLLOWING or self._failures:
            self._ask(Look())
        else:
            self._ask(Renew(self._highest_term, self._term_duration))

    def _notified(self) -> None:
        if self._is_busy:
            self._look_again = True
        elif not self._failures:
            self._ask(Look())

    def _resign(self, for_good: bool, now: float) -> None:
        was_leading = self._role is not LockRole.FOLLOWING
        if for_good:
            self._stands_from = NEVER
        elif was_leading:
            self._stands_from = now + self._timing.lease
        if was_leading:
            self._step_down("resigned", now)
            if self._is_busy:
                self._look_again = True  # and release the row, if it is this node's then
            else:
                self._ask(Release(self._highest_term, self._successor))

    # --- answers -----------------------------------------------------------------------------------------------------

    def _answered(self, answer: Answer, now: float) -> None:
        self._is_busy = False
        if isinstance(answer, StatementFailed):
            self._failed(answer.reason, now)
        else:
            match answer:
                case Looked():
                    self._looked(answer, now)
                case Inserted():
                    self._ask(Look())
                case TookOver(won, sent_at):
                    self._took_over(won, sent_at, now)
                case Renewed(set_back=why) if why and self._role is not LockRole.FOLLOWING:
                    self._set_back(why, now)
                case Renewed(done, sent_at):
                    self._renewed(done, sent_at, now)
                case Loaded(is_whole, set_back):
                    self._loaded(is_whole, set_back, now)
                case Released():
                    self._successor = ""
                    self._act_at = now + self._pace()
            if self._failures and not self._is_busy:  # a database that refuses changes only can still be read
                self._effects.append(Noted(f"the database answers again, after {self._failures} failed attempts"))
                self._failures, self._reasons = 0, set()
        if self._look_again and not self._is_busy:
            self._look_again = False
            self._ask(Look())

    def _failed(self, reason: str, now: float) -> None:
        self._failures += 1
        if reason not in self._reasons:
            self._reasons.add(reason)
            self._effects.append(Noted(f"the database cannot be used: {reason}"))
        self._look_again = False
        longest = min(self._timing.renew, SHORTEST_RETRY_SECONDS * 2 ** min(self._failures, 10))
        self._act_at = now + longest * self._rng.uniform(0.5, 1.0)

    def _looked(self, looked: Looked, now: float) -> None:
        row, is_behind = looked.row, looked.is_behind
        if row is None:
            self._found_no_row(now)
            return
        if looked.set_back:
            self._set_back(looked.set_back, now)
            return
        if self._is_set_back:
            self._is_set_back, self._is_doubtful = False, True
        if looked.doubt:
            self._is_doubtful = True
            self._effects.append(Noted(f"the meta state is read anew: {looked.doubt}"))
        if looked.is_accepted_anew and self._role is not LockRole.FOLLOWING:
            self._step_down("another history of the meta state was accepted", now)
        if self._role is LockRole.FOLLOWING:
            self._follow(row, is_behind, now)
        elif row.owner != self._owner or row.term != self._highest_term:
            self._step_down(f"the row names {_described(row)}", now)
            self._follow(row, is_behind, now)
        else:
            # A renewal whose answer was lost may have been carried out.
            self._term_duration = row.term_duration
            self._must_load = is_behind or self._role is LockRole.LOADING or self._is_doubtful
            self._go_on(now)

    def _go_on(self, now: float) -> None:
        """As the owner of the row: renew the lease when it is time, and load what is to be loaded meanwhile."""
        if self._must_load and now < self._renew_at:
            self._load()
        else:
            self._ask(Renew(self._highest_term, self._term_duration))

    def _load(self) -> None:
        is_first = self._role is LockRole.LOADING
        self._ask(Load(LoadScope.ANEW if self._is_doubtful else LoadScope.COMPARED if is_first else LoadScope.NEWER))

    def _loaded(self, is_whole: bool, set_back: str, now: float) -> None:
        if set_back:
            self._set_back(set_back, now)
            return
        if is_whole:
            self._is_doubtful = self._must_load = False
            if self._role is LockRole.LOADING:
                self._role = LockRole.LEADING
                self._know(self._owner, "elected", leading=True)
        elif self._role is not LockRole.FOLLOWING:
            self._go_on(now)
        elif now < self._act_at:
            self._load()

    def _set_back(self, why: str, now: float) -> None:
        """The database is an older copy of the one that this node knew. Until it has the newest changes again, or an
        operator has accepted it, this node does not lead and loads nothing."""
        self._role = LockRole.FOLLOWING
        self._known_until = NEVER
        self._act_at = now + self._pace()
        if self._is_set_back:
            return
        self._is_set_back = True
        cause = f"the database was set back: {why}"
        self._known = (None, self._highest_term, False)
        self._effects.append(LeadershipChanged(None, self._highest_term, False, cause))
        self._effects.append(Alarm(f"{cause}; bring the newest copy back, or run `slotreeve election accept`"))

    def _found_no_row(self, now: float) -> None:
        if self._role is not LockRole.FOLLOWING:
            self._step_down("the row was removed", now)
        self._know(None, "there is no row")
        if self._observer:
            self._act_at = now + self._pace()
        else:
            self._ask(Insert(self._highest_term, may_wait=self._highest_term > 0))

    def _follow(self, row: Row, is_behind: bool, now: float) -> None:
        if row.owner == self._owner:
            # The answer to a take-over or a release was lost, or this node stepped down without the database. It does
            # not lead, so it releases the row: a lease whose end it may have reported is never used again.
            self._highest_term = max(row.term, self._highest_term)
            self._ask(Release(row.term, self._successor))
            return
        self._learn(row, now)
        self._act_at = now + self._until_next_look(row, now)
        is_kept = row.owner == reservation(self._owner)
        if is_kept and self._stands_from < NEVER:
            self._stands_from = -NEVER  # this node is asked for, although it resigned just now
        if (is_kept or row.remaining_ms <= 0) and not self._observer and now >= self._stands_from:
            self._taking = max(row.term, self._highest_term) + 1
            self._ask(TakeOver(row, self._taking))
        elif is_behind or self._is_doubtful:
            self._load()

    def _learn(self, row: Row, now: float) -> None:
        """The leader, from a row that another node owns."""
        if row.term < self._highest_term:
            self._know(None, f"the row names {_described(row)}, after term {self._highest_term}: changed by hand")
            return
        self._highest_term = row.term
        if not row.owner or row.owner.startswith(KEPT_FOR):
            self._know(None, f"the row was released {row.owner.replace(KEPT_FOR, 'for ')}".strip())
        elif row.remaining_ms <= 0:
            self._know(None, "the leader's lease ran out")
        else:
            self._know(row.owner, "elected")
            # While the database answers, the next look shows the end before that.
            self._known_until = now + row.remaining_ms / 1000 + self._timing.timeout

    def _took_over(self, won: bool, sent_at: float, now: float) -> None:
        if not won:
            self._act_at = now + SHORTEST_LOOK_SECONDS
            return
        self._highest_term = self._taking
        self._set_lease(sent_at)
        if now < self._stands_from or now >= self._lease_end:
            self._ask(Release(self._taking))  # resigned meanwhile, or the answer is too old to lead by
            return
        self._role = LockRole.LOADING
        self._term_duration = 0
        self._must_load = True
        self._load()

    def _renewed(self, done: bool, sent_at: float, now: float) -> None:
        if self._role is LockRole.FOLLOWING:
            # Stepped down while the renewal was under way. If it was carried out this node still holds the row.
            self._ask(Look())
        elif done:
            self._term_duration += 1
            self._set_lease(sent_at)
            if self._must_load:
                self._load()
        else:
            self._step_down("the row was taken, changed, or has expired by the database's clock", now)
            self._ask(Look())

    # --- pieces ------------------------------------------------------------------------------------------------------

    def _set_lease(self, sent_at: float) -> None:
        self._lease_end = sent_at + self._timing.lease - self._timing.margin
        self._act_at = self._renew_at = sent_at + self._timing.renew

    def _step_down(self, cause: str, now: float) -> None:
        self._role = LockRole.FOLLOWING
        self._know(None, cause)
        self._act_at = now

    def _know(self, owner: str | None, cause: str, leading: bool = False) -> None:
        known = (owner, self._highest_term, leading)
        self._known_until = NEVER
        if known != self._known:
            self._known = known
            self._effects.append(LeadershipChanged(owner, self._highest_term, leading, cause))

    def _until_next_look(self, row: Row, now: float) -> float:
        """Seconds until the row expires, or until the next poll, whichever is shorter; not the same on all nodes."""
        waiting = row.remaining_ms / 1000 if row.remaining_ms > 0 else self._stands_from - now
        expiry = waiting + self._rng.uniform(0.0, 0.01)
        return max(SHORTEST_LOOK_SECONDS, min(self._pace(), expiry if waiting > 0 else NEVER))

    def _pace(self) -> float:
        return self._timing.renew * self._rng.uniform(0.9, 1.1)

    def _ask(self, request: Request) -> None:
        self._is_busy = True
        self._effects.append(request)


def _described(row: Row) -> str:
    return f"{row.owner or 'nobody'} in term {row.term}"
