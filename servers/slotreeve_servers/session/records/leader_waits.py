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
    """Requests that wait for a leader, each until its deadline: there is none, or the one that there is has refused
    them, and is asked again at the next look.

    Args:
        is_led: whether the slot for which these wait has a leader, :data:`EVERY_SLOT` for all of them.
        go_on: takes a request that waits no more.
        give_up: takes one whose time is over.
    """

    def __init__(
        self,
        outbox: Outbox,
        is_led: Callable[[int], bool],
        go_on: Callable[[T], None],
        give_up: Callable[[T], None],
    ) -> None:
        self._outbox, self._is_led, self._go_on, self._give_up = outbox, is_led, go_on, give_up
        # By slot; the next deadline is the first.
        self._waiting: dict[int, list[tuple[float, int, T]]] = {}
        self._numbers = itertools.count()
        self._look = Retry(outbox, LOOK_SECONDS, self._look_at_all)

    def add(self, slot: int, request: T, deadline: float) -> None:
        """Let a request wait for the leader of a slot, until a deadline on the server's clock."""
        heapq.heappush(self._waiting.setdefault(slot, []), (deadline, next(self._numbers), request))
        self._look.later()

    def _look_at_all(self) -> None:
        for slot in self._waiting:
            self._outbox.pace(self._work_off, slot)
        if self._waiting:
            self._look.later()

    def _work_off(self, slot: int) -> Iterator[None]:
        """Go on with all of them once there is a leader; before that, give up those whose time is over. What is added
        meanwhile waits for the next look."""
        if self._is_led(slot):
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
        while (waiting := self._waiting.get(slot, [])) and waiting[0][0] <= self._outbox.now():
            self._give_up(heapq.heappop(waiting)[2])
            yield
        if not waiting:
            self._waiting.pop(slot, None)
