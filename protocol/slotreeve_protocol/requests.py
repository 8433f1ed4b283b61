"""The requests of one connection that wait for a reply: their ids, and their time-outs on one shared timer."""

from __future__ import annotations

import math
from collections.abc import Callable

from slotreeve.clock import Clock, Timer
from slotreeve.errors import RequestTimeout
from slotreeve.ports import Message

Answered = Callable[[Message | None, Exception | None], None]
"""Called once, with the reply or with an error."""

TIMEOUT_GRAIN_SECONDS = 0.01
"""Requests that time out within this time of each other end together, so the earlier ones end up to this much late."""

_ID_MASK = 0xFFFF_FFFF


class PendingRequests:
    """The requests without a reply.

    Args:
        clock: the clock.
        fail: is called for each request that times out, with what the request was added with and a RequestTimeout.
        peer: address of the peer, for the message of the RequestTimeout.
        first_id: the first request id; after 2^32 - 1 comes 0.
    """

    __slots__ = ("_clock", "_expiry", "_fail", "_next_id", "_peer", "_pending", "_timer")

    def __init__(self, clock: Clock, fail: Callable[[Answered, Exception], None], peer: str, first_id: int = 1) -> None:
        self._clock, self._fail, self._peer = clock, fail, peer
        self._pending: dict[int, tuple[Answered, float]] = {}
        self._next_id = first_id
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
        """Wait for a reply, at most ``timeout_seconds`` and :data:`TIMEOUT_GRAIN_SECONDS`; as long as the connection
        lives where ``timeout_seconds`` is ``math.inf``."""
        deadline = self._clock.now() + timeout_seconds
        self._pending[request_id] = (answered, deadline)
        if deadline < self._expiry:
            self._arm(deadline, timeout_seconds)

    def take(self, request_id: int) -> Answered | None:
        """End the wait for this reply. Returns what the request was added with; None if it is not waited for."""
        waiting = self._pending.pop(request_id, None)
        return None if waiting is None else waiting[0]

    def take_all(self) -> list[Answered]:
        """End every wait. Returns what the requests were added with, oldest first."""
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
                self._fail(answered, RequestTimeout(f"{self._peer} did not answer in time"))
        if self._pending:
            earliest = min(deadline for _, deadline in self._pending.values())
            if earliest < self._expiry:
                # Invariant: at most one scan in TIMEOUT_GRAIN_SECONDS, however many requests time out one after
                # another.
                self._arm(earliest, max(earliest - self._clock.now(), TIMEOUT_GRAIN_SECONDS))
