"""Those that lag, as pages of a reply. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import NamedTuple

from slotreeve_protocol.delay_messages import MOST_LAGGING, GetDelays, Lagging


class LaggingPage(NamedTuple):
    """The part of a :class:`slotreeve_protocol.delay_messages.DelayPage` that says who lags."""

    lagging: tuple[Lagging, ...]
    worst: Lagging | None
    more: bool


def page_of(all_of_them: Iterable[Lagging], asked: GetDelays) -> LaggingPage:
    """The page that was asked for, of those that matter to it. Rows of one name stay together."""
    found = list(all_of_them)
    worst = max(found, key=_seconds, default=None)
    after = [one for one in found if one.name > asked.after]
    first = nsmallest(max(1, min(asked.most, MOST_LAGGING)), after, key=_name)
    last = first[-1].name if first else ""
    wanted = sorted((one for one in after if one.name <= last), key=_name) if len(first) < len(after) else first
    return LaggingPage(tuple(wanted), worst, len(after) > len(wanted))


def _name(one: Lagging) -> str:
    return one.name


def _seconds(one: Lagging) -> float:
    return one.seconds
