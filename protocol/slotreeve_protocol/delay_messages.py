"""What people ask data and session servers: how long changes take, who lags, and when slots were unreadable."""

from __future__ import annotations

import msgspec
from slotreeve.ports import Message

MOST_LAGGING = 1_000
"""Most of those that lag in one reply."""


class StageDelays(msgspec.Struct, array_like=True, frozen=True):
    """A histogram of one stage of the way of changes, over the last minutes.

    ``bounds``: upper ends of the ranges, in seconds. ``counts``: how many durations fell into each of them, then those
    above the last one. ``longest_seconds``: the longest one.
    """

    name: str
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    longest_seconds: float

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """The duration that so large a share of them did not exceed, in seconds: the end of its range, or the longest
        duration where that is shorter. 0: there is none."""
        wanted, seen = share * self.count, 0
        for bound, number in zip(self.bounds, self.counts, strict=False):
            seen += number
            if seen >= wanted:
                return min(bound, self.longest_seconds)
        return self.longest_seconds


class ObjectiveWindow(msgspec.Struct, array_like=True, frozen=True):
    """In the last ``seconds``: pushes of changes, and how many of them were later than the objective admits. A change
    that waits counts as late again and again (docs/delays.md)."""

    seconds: float
    pushed: int
    late: int
    burn_rate: float = 0.0


class Lagging(msgspec.Struct, array_like=True, frozen=True):
    """Somebody to whom changes come late now, or something that they wait for: a subscriber, a session server, a slot.

    ``seconds``: for how long the oldest change has waited. ``why``: for people.
    """

    name: str
    address: str
    service: str
    seconds: float
    why: str


class ServiceDelay(msgspec.Struct, array_like=True, frozen=True):
    """One service on this server.

    ``version``: of its copy here; on the leader of its slot the newest one. ``leads``: this server leads its slot.
    ``subscribers``: how many it has here; on the leader session servers. ``behind``: how many of them lack a change.
    ``last``, ``worst`` of the last minutes: seconds that a change took until it arrived here, without the time on the
    wire; seconds from then until its push; how long ago it was pushed, in seconds. None: nothing was pushed.
    """

    version: int
    leads: bool
    subscribers: int
    behind: int
    last: tuple[float, float, float] | None = None
    worst: tuple[float, float, float] | None = None


class GetDelays(Message, frozen=True, tag=120):
    """Tool to data or session: return how long changes took lately, and who lags, of one service or (empty) of all; of
    those that lag the ones whose names come after ``after``, in the order of their names, ``most`` at most. Reply:
    DelayPage."""

    service: str = ""
    after: str = ""
    most: int = MOST_LAGGING


class DelayPage(Message, frozen=True, tag=121):
    """Reply to GetDelays: how long changes take, and who lags.

    ``stages``: of all services. ``delay_seconds``, ``share``: the objective: so large a share of the pushes takes at
    most so long; 0 on a data server. ``lagging``: a page of those that lag. ``worst``: the one with the oldest change
    of all. ``service``: the one that was asked for, if it is known here. ``more``: others lag after the last one.
    ``is_burning``: the objective is missed so fast that somebody should look.
    """

    stages: tuple[StageDelays, ...]
    delay_seconds: float = 0.0
    share: float = 0.0
    windows: tuple[ObjectiveWindow, ...] = ()
    lagging: tuple[Lagging, ...] = ()
    worst: Lagging | None = None
    service: ServiceDelay | None = None
    more: bool = False
    is_burning: bool = False


class SlotReads(msgspec.Struct, array_like=True, frozen=True):
    """For how long a slot could not be read, as far as this server led it, on its clock.

    ``open_seconds``: it cannot be read now, and for so long; 0: it can, or another server leads it. ``hour_seconds``,
    ``day_seconds``: altogether in the last hour and day, the present time included. ``ended``: how many such times
    ended in the last day. ``why``: it cannot be read now, for people.
    """

    slot: int
    open_seconds: float
    hour_seconds: float
    day_seconds: float
    ended: int
    why: str = ""


class GetSlotReads(Message, frozen=True, tag=122):
    """Tool to data: return for how long slots could not be read, of the slots after ``after`` of which there is
    something to say, ``most`` at most. Reply: SlotReadsPage."""

    after: int = -1
    most: int = MOST_LAGGING


class SlotReadsPage(Message, frozen=True, tag=123):
    """Reply to GetSlotReads: a page of them. ``more``: others follow after the last one."""

    slots: tuple[SlotReads, ...]
    more: bool = False
