"""Requests that wait for their reply on one connection: their ids, and their time-outs on one shared timer."""

from __future__ import annotations

import math
from collections.abc import Callable

from slotreeve.clock import Clock, Timer
from slotreeve.ports import Message

Answered = Callable[[Message | None, Exception | None], None]
"""Called once with the reply, or with the error that came instead."""

TIMEOUT_GRAIN_SECONDS = 0.01
"""Requests that expire within this time of each other are told together, the earlier ones that much late."""

_ID_MASK = 0xFFFF_FFFF


class PendingRequests:
    """What was asked and not yet answered; ``expired`` is told of each request whose time is up."""

    __slots__ = ("_clock", "_expired", "_expiry", "_next_id", "_pending", "_timer")

    def __init__(self, clock: Clock, expired: Callable[[Answered], None]) -> None:
        self._clock = clock
        self._expired = expired
        self._pending: dict[int, tuple[Answered, float]] = {}
        self._next_id = 1
        self._timer: Timer | None = None
        self._expiry = math.inf

    def new_id(self) -> int:
        """An id that no pending request has (0 .. 2^32-1)."""
        request_id = self._next_id
        while request_id in self._pending:
            request_id = request_id + 1 & _ID_MASK
        self._next_id = request_id + 1 & _ID_MASK
        return request_id

    def add(self, request_id: int, answered: Answered, timeout_seconds: float) -> None:
        """Wait for a reply, at most ``timeout_seconds`` (and a grain)."""
        deadline = self._clock.now() + timeout_seconds
        self._pending[request_id] = (answered, deadline)
        if deadline < self._expiry:
            self._arm(deadline, timeout_seconds)

    def take(self, request_id: int) -> Answered | None:
        """Who waits for this reply; None if nobody does (any more)."""
        waiting = self._pending.pop(request_id, None)
        return None if waiting is None else waiting[0]

    def take_all(self) -> list[Answered]:
        """All who wait, oldest first; nobody waits afterwards and no timer runs."""
        self._disarm()
        pending, self._pending = self._pending, {}
        return [answered for answered, _ in pending.values()]

    def _arm(self, deadline: float, seconds: float) -> None:
        self._disarm()
        self._expiry = deadline
        self._timer = self._clock.call_later(seconds, self._expire)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._expiry = math.inf

    def _expire(self) -> None:
        self._disarm()
        now = self._clock.now()
        for request_id in [i for i, (_, deadline) in self._pending.items() if deadline <= now]:
            answered = self.take(request_id)
            if answered is not None:
                self._expired(answered)
        if self._pending:
            earliest = min(deadline for _, deadline in self._pending.values())
            if earliest < self._expiry:
                # Invariant: at most one scan a grain, however many requests expire one after the other.
                self._arm(earliest, max(earliest - self._clock.now(), TIMEOUT_GRAIN_SECONDS))
