"""What waits because a slot has no leader that serves it waits together: while it waits, it costs nothing."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from slotreeve_servers.node.outbox import Outbox, Retry

LOOK_SECONDS = 0.02
"""Pause between two looks whether there is a leader."""
EVERY_SLOT = -1
T = TypeVar("T")


class LeaderWaits(Generic[T]):
    """Requests that wait for a leader that serves them, each until its deadline. A leader that has refused one is tried
    with one of them at each look. The others go on once it has served that one.

    Args:
        is_led: whether the slot for which these wait has a leader, :data:`EVERY_SLOT` for all of them.
        go_on: takes a request that waits no more.
        give_up: takes one whose time is over, and why the leader has refused it; empty: there is none.
    """

    def __init__(
        self,
        outbox: Outbox,
        is_led: Callable[[int], bool],
        go_on: Callable[[T], None],
        give_up: Callable[[T, str], None],
    ) -> None:
        self._outbox, self._is_led, self._go_on, self._give_up = outbox, is_led, go_on, give_up
        # By slot; the next deadline is the first.
        self._waiting: dict[int, list[tuple[float, int, T]]] = {}
        self._refusals: dict[int, str] = {}
        self._numbers = itertools.count()
        self._look = Retry(outbox, LOOK_SECONDS, self._look_at_all)

    def add(self, slot: int, request: T, deadline: float, refusal: str = "") -> None:
        """Let a request wait for the leader of a slot, until a deadline on the server's clock. ``refusal``: why the
        leader that there is has not served it; empty: there is none."""
        if self._outbox.now() >= deadline:
            self._give_up(request, refusal)
            return
        if refusal:
            self._refusals[slot] = refusal
        heapq.heappush(self._waiting.setdefault(slot, []), (deadline, next(self._numbers), request))
        self._look.later()

    def served(self, slot: int) -> None:
        """The leader of a slot has served a request."""
        self._refusals.pop(slot, None)

    def _look_at_all(self) -> None:
        for slot in self._waiting:
            self._outbox.pace(self._work_off, slot)
        if self._waiting:
            self._look.later()
        else:
            self._refusals.clear()

    def _work_off(self, slot: int) -> Iterator[None]:
        """Go on with all of them, or with one where the leader has refused one; give up those whose time is over. What
        is added meanwhile waits for the next look."""
        is_led = self._is_led(slot)
        if is_led and slot not in self._refusals:
            waiting = self._waiting.pop(slot, [])
            try:
                while waiting:
                    self._go_on(heapq.heappop(waiting)[2])
                    yield
            finally:
                if waiting:  # one has failed: the others wait for the next look
                    waiting += self._waiting.get(slot, [])
                    heapq.heapify(waiting)
                    self._waiting[slot] = waiting
                    self._look.later()
            return
        if not is_led:
            self._refusals.pop(slot, None)
        while (waiting := self._waiting.get(slot, [])) and waiting[0][0] <= self._outbox.now():
            self._give_up(heapq.heappop(waiting)[2], self._refusals.get(slot, ""))
            yield
        if waiting and is_led:
            self._go_on(heapq.heappop(waiting)[2])
        if not waiting:
            self._waiting.pop(slot, None)
