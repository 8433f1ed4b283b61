"""One digest exchange for both sides: a slot leader with a session server, a follower with its slot leader.

The asking side sends digests of what it holds; the other side answers with the services that differ.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol

from msgspec import structs
from slotreeve.ports import Message
from slotreeve_protocol.slot_messages import Compared, ComparedUpTo, SlotDifference, SlotDigests

from slotreeve_servers.node.outbox import Outbox, Peer

SERVICES_PER_REQUEST = 4_000
"""Services and parts of services."""
SLOTS_PER_REQUEST = 64
RETRY_SECONDS = 0.1


class Progress(Enum):
    """What becomes of a slot after an answer."""

    DONE = auto()
    """It is compared, or this server has nothing to compare any more."""
    AGAIN = auto()
    """The answer was not complete: it is asked again at once, from the start."""
    ON = auto()
    """The answer was not complete: it is asked again at once for what comes after this answer."""
    LATER = auto()
    """The other side has another table: it is asked again after :data:`RETRY_SECONDS`."""


class Side(Protocol):
    """What is compared, and what is done with an answer."""

    def digests(self, number: int) -> SlotDigests | None:
        """What this server holds of a slot; None where there is nothing to compare (any more)."""

    def request(self, slots: list[SlotDigests]) -> Message:
        """The request that the other side answers with Compared."""

    def take(self, asked: SlotDigests, difference: SlotDifference) -> Progress:
        """Apply the answer for one slot."""

    def answered(self) -> None:
        """Every slot of one answer was taken."""


def services_in(difference: SlotDifference) -> int:
    """Number of services that differ according to one answer."""
    return len(difference.records) + len({part.data_info_id for part in difference.parts})


class DigestExchange:
    """The comparisons with one peer: slots wait in a queue, and one request is in flight at a time. It is waited for as
    long as the connection lives: asking again would only be more work for a peer that is late."""

    def __init__(self, outbox: Outbox, peer: Peer, side: Side) -> None:
        self._outbox, self._peer, self._side = outbox, peer, side
        self._queue: OrderedDict[int, ComparedUpTo] = OrderedDict()
        self._is_busy = False
        self._is_stopped = False

    def add(self, slots: Iterable[int]) -> None:
        """Compare these slots soon."""
        self._queue.update(dict.fromkeys(slots, ComparedUpTo()))
        self._next()

    def stop(self) -> None:
        """The connection has ended."""
        self._is_stopped = True

    def _next(self) -> None:
        if self._is_busy or self._is_stopped:
            return
        asked = self._take_from_queue()
        if not asked:
            return
        self._is_busy = True

        def answered(reply: Message | None, error: Exception | None) -> None:
            if isinstance(reply, Compared):
                self._take(asked, reply)
            else:
                self._pause(asked)

        if not self._outbox.ask(self._peer, self._side.request(asked), answered, math.inf):
            self._pause(asked)

    def _take_from_queue(self) -> list[SlotDigests]:
        asked: list[SlotDigests] = []
        services = 0
        while self._queue and len(asked) < SLOTS_PER_REQUEST and services < SERVICES_PER_REQUEST:
            number, after = self._queue.popitem(last=False)
            digests = self._side.digests(number)
            if digests is not None:
                digests = structs.replace(digests, after=after)
                services += len(digests.digests) + sum(len(parts.digests) for parts in digests.parts.values())
                asked.append(digests)
        return asked

    def _take(self, asked: list[SlotDigests], reply: Compared) -> None:
        later: list[SlotDigests] = []
        for request, difference in zip(asked, reply.differences, strict=False):
            progress = self._side.take(request, difference)
            if progress is Progress.AGAIN:
                self._queue[request.slot] = ComparedUpTo()
            elif progress is Progress.ON:
                self._queue.setdefault(request.slot, difference.upto)
            elif progress is Progress.LATER:
                later.append(request)
        self._side.answered()
        if later:
            self._pause(later)
        else:
            self._is_busy = False
            self._next()

    def _pause(self, again: list[SlotDigests]) -> None:
        """Ask for nothing for a while, and then for these slots too."""
        self._queue.update(dict.fromkeys((request.slot for request in again), ComparedUpTo()))
        self._outbox.after(RETRY_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._is_busy = False
        self._next()
