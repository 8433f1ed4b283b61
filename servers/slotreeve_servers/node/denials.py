"""What callers were denied, for the history, however often they ask."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve_protocol.history_messages import LONGEST_DENIAL, Denied

TOLD_SECONDS = 60.0
"""The same denial within this time is counted, and told once more at its end."""
MOST_TOLD = 20
"""Different denials of one caller within that time that are told one by one; its further ones are told together."""
MOST_STRANGERS = 200
"""Addresses within that time from which nobody known was denied something, that are told one by one."""
MOST_HOLDERS = 10_000
"""Keys, tokens and other proofs within that time whose holders are told one by one."""
MORE = "denied; it was too much to tell each"
_Told = tuple[str, str, str]
"""Author, address and reason."""
OTHERS: _Told = ("others", "", "denied; they were too many to tell each")
"""Further ones are told together."""


class Denials:
    """The denials of one process. The first of its kind is told at once. Nobody's denials take the place of another's:
    the holder of a key or a token is one caller, whatever it calls itself and wherever it comes from.

    Args:
        after: calls an action after some seconds.
        told: takes what is to be written down.
    """

    def __init__(self, after: Callable[[float, Callable[[], None]], object], told: Callable[[Denied], None]) -> None:
        self._after, self._told = after, told
        self._holders: dict[str, dict[_Told, int]] = {}
        self._strangers: dict[str, dict[_Told, int]] = {}

    def note(self, author: str, address: str, reason: str, holder: str = "") -> None:
        """Somebody was denied something. ``address``: empty where it is not known. ``holder``: of which key or token it
        has proven to be the holder; empty: of none."""
        if not self._holders and not self._strangers:
            self._after(TOLD_SECONDS, self.tell)
        told = author[:LONGEST_DENIAL], address[:LONGEST_DENIAL], reason[:LONGEST_DENIAL]
        if holder:
            callers, caller, most = self._holders, holder, MOST_HOLDERS
        else:
            callers, caller, most = self._strangers, address, MOST_STRANGERS
        if caller not in callers and len(callers) >= most:
            caller, told = "", OTHERS
        again = callers.setdefault(caller, {})
        if told not in again and len(again) >= MOST_TOLD:
            told = (holder[:LONGEST_DENIAL], "", MORE) if holder else (OTHERS[0], told[1], MORE)
        if told in again:
            again[told] += 1
        else:
            again[told] = 0
            self._told(Denied(*told))

    def tell(self) -> None:
        """Tell what has been counted."""
        counted = [*self._holders.values(), *self._strangers.values()]
        self._holders, self._strangers = {}, {}
        for again in counted:
            for told, count in again.items():
                if count:
                    self._told(Denied(*told, count))
