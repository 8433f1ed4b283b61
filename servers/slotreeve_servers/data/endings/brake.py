"""How many registrations may end at once without a word from those who published them (Eureka's self-preservation, but
for each service, and with an end). Pure: time is an argument.

See docs/endings.md.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Callable

from slotreeve_servers.data.endings.ending import Ending
from slotreeve_servers.data.settings import DataSettings

log = logging.getLogger("slotreeve.brake")

NAMED_SERVICES = 5
"""An alarm names so many services."""


EndTally = Counter[str]
"""How many registrations of each client end together; a lease counts as a client."""
EndTallies = dict[str, EndTally]
"""By data info id; under the empty name, of all services together."""
HeldCounts = Counter[tuple[type[Ending], str]]


def count(tallies: EndTallies, ending: Ending) -> None:
    """Count one registration."""
    for name in ("", ending.data_info_id):
        tallies.setdefault(name, Counter())[ending.client] += 1


class Brake:
    """Lets few end, or a small share; counts what it let end within a window of time.

    Attributes:
        rules: what it allows.
        is_frozen: an order lets nothing end.
        held: number of registrations that it held at the last look, by kind and data info id.
        overdue: how many of each kind ended since the start against it, because the longest time was over.
    """

    def __init__(self, rules: DataSettings) -> None:
        self.rules = rules
        self.is_frozen = False
        self.held: HeldCounts = Counter()
        self.overdue: Counter[type[Ending]] = Counter()
        self._thawed_at = -math.inf
        self._ended: deque[tuple[float, EndTallies]] = deque()

    def freeze(self, frozen: bool, now: float) -> None:
        """An order lets nothing end from now on, or does so no more. What it held then waits its whole time anew."""
        if self.is_frozen and not frozen:
            self._thawed_at = now
        self.is_frozen = frozen

    def look(self, registrations: Callable[[], int], now: float) -> BrakeLook:
        """Begin to look at all that would end now at a server that leads ``registrations()`` records."""
        while self._ended and self._ended[0][0] <= now - self.rules.brake_window_seconds:
            self._ended.popleft()
        return BrakeLook(self, registrations, now)

    def allows(self, name: str, ending: EndTally, size: Callable[[], int]) -> bool:
        """Whether so many may end in a service of ``size`` records, these included; or of all, under the empty name."""
        past = [tallies[name] for _, tallies in self._ended if name in tallies]
        if len(set(ending).union(*past)) <= self.rules.brake_few:
            return True
        ended = sum(tally.total() for tally in past)
        return ended + ending.total() < self.rules.brake_share * (size() + ended)

    def has_held_longest(self, since: float, now: float) -> bool:
        """Whether what is held since then may be held no longer."""
        return not self.is_frozen and now >= max(since, self._thawed_at) + self.rules.brake_hold_seconds

    def looked(self, ended: EndTallies, held: HeldCounts, now: float) -> None:
        """A look is over: these end, and those are held. Logs when it begins and ends to hold any."""
        if ended:
            self._ended.append((now, ended))
        was_held, self.held = bool(self.held), held
        if self.is_frozen or bool(held) is was_held:
            return  # who ordered a freeze knows it
        if not held:
            log.warning("no end of a registration is held back any more")
            return
        log.error(
            "ALARM: the ends of %d registrations are held back, because so many would end at once, or nobody renews "
            "leases (data.brake_share); each for %g s at most (data.brake_hold_seconds); most of them in %s",
            held.total(),
            self.rules.brake_hold_seconds,
            ", ".join(f"{name} ({number})" for (_, name), number in held.most_common(NAMED_SERVICES)),
        )


class BrakeLook:
    """One look at all that would end now: :meth:`add` them all, then ask whether each :meth:`lets_end`."""

    def __init__(self, brake: Brake, registrations: Callable[[], int], now: float) -> None:
        self._brake, self._registrations, self._now = brake, registrations, now
        self._together: EndTallies = {}
        self._ended: EndTallies = {}
        self._held: HeldCounts = Counter()
        self._allowed: dict[str, bool] = {}

    def add(self, ending: Ending) -> None:
        """This one would end, too."""
        count(self._together, ending)

    def lets_end(self, ending: Ending, is_doubtful: bool = False) -> bool:
        """Whether a registration may end: the brake allows it and there is no doubt, or it was held long enough."""
        if not self._brake.is_frozen:
            may_end = self._allows(ending) and not is_doubtful
            if not may_end and self._brake.has_held_longest(ending.held_since, self._now):
                self._brake.overdue[type(ending)] += 1
                may_end = True
            if may_end:
                count(self._ended, ending)
                return True
        self._held[type(ending), ending.data_info_id] += 1
        return False

    def _allows(self, ending: Ending) -> bool:
        name = ending.data_info_id
        if not self._allowed:
            self._allowed[""] = self._brake.allows("", self._together[""], self._registrations)
        if name not in self._allowed:
            size = len(ending.slot.store.services.get(name, ()))
            self._allowed[name] = self._allowed[""] and self._brake.allows(name, self._together[name], lambda: size)
        return self._allowed[name]

    def end(self) -> None:
        """All were asked for."""
        self._brake.looked(self._ended, self._held, self._now)
