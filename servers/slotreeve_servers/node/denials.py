"""What callers were denied, for the history, however often they ask."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve_protocol.history_messages import Denied

TOLD_SECONDS = 60.0
"""The same denial within this time is counted, and told once more at its end."""
MOST_TOLD = 100
"""Different denials within that time that are told one by one; further ones are told together."""
OTHERS = ("others", "", "denied; they were too many to tell each")


class Denials:
    """The denials of one process. The first of its kind is told at once.

    Args:
        after: calls an action after some seconds.
        told: takes what is to be written down.
    """

    def __init__(self, after: Callable[[float, Callable[[], None]], object], told: Callable[[Denied], None]) -> None:
        self._after, self._told = after, told
        self._again: dict[tuple[str, str, str], int] = {}

    def note(self, author: str, address: str, reason: str) -> None:
        """Somebody was denied something. ``address``: empty where it is not known."""
        if not self._again:
            self._after(TOLD_SECONDS, self.tell)
        kind = (author, address, reason)
        if kind not in self._again and len(self._again) >= MOST_TOLD:
            kind = OTHERS
        if kind in self._again:
            self._again[kind] += 1
        else:
            self._again[kind] = 0
            self._told(Denied(*kind))

    def tell(self) -> None:
        """Tell what has been counted."""
        again, self._again = self._again, {}
        for kind, count in again.items():
            if count:
                self._told(Denied(*kind, count))
