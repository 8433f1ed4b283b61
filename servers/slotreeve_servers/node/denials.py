"""What callers were denied, for the history, however often they ask."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve_protocol.history_messages import LONGEST_DENIAL, Denied

TOLD_SECONDS = 60.0
"""The same denial within this time is counted, and told once more at its end."""
MOST_TOLD = 20
"""Different denials of one caller within that time that are told one by one; its further ones are told together."""
MOST_CALLERS = 200
"""Callers within that time that are told one by one; further ones are told together."""
MORE = "denied; it was too much to tell each"
OTHERS = ("others", "", "denied; they were too many to tell each")


class Denials:
    """The denials of one process. The first of its kind is told at once. Nobody's denials take the place of another's.

    Args:
        after: calls an action after some seconds.
        told: takes what is to be written down.
    """

    def __init__(self, after: Callable[[float, Callable[[], None]], object], told: Callable[[Denied], None]) -> None:
        self._after, self._told = after, told
        self._again: dict[tuple[str, str], dict[str, int]] = {}

    def note(self, author: str, address: str, reason: str) -> None:
        """Somebody was denied something. ``address``: empty where it is not known."""
        if not self._again:
            self._after(TOLD_SECONDS, self.tell)
        caller, reason = (author[:LONGEST_DENIAL], address[:LONGEST_DENIAL]), reason[:LONGEST_DENIAL]
        if caller not in self._again and len(self._again) >= MOST_CALLERS:
            caller, reason = OTHERS[:2], OTHERS[2]
        again = self._again.setdefault(caller, {})
        if reason not in again and len(again) >= MOST_TOLD:
            reason = MORE
        if reason in again:
            again[reason] += 1
        else:
            again[reason] = 0
            self._told(Denied(*caller, reason))

    def tell(self) -> None:
        """Tell what has been counted."""
        counted, self._again = self._again, {}
        for caller, again in counted.items():
            for reason, count in again.items():
                if count:
                    self._told(Denied(*caller, reason, count))
