"""What clients look up, and want of leases, is asked of the slots' leaders a little at a time, so that what cannot wait
need not wait for it: registrations and their acknowledgements come over the same links."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from slotreeve.errors import ConnectionLost, RequestTimeout
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import Datum, Services

from slotreeve_servers.node.deltas import size_of
from slotreeve_servers.node.fair_queue import FairQueue
from slotreeve_servers.node.outbox import Answered, Outbox, Peer

MOST_OPEN = 64
"""So many questions to one leader may be without an answer."""
OPEN_PARTS = 4
"""The answers to them may be so many times ``node.part_bytes`` large, as far as earlier answers tell: an
acknowledgement waits behind those that the leader has sent. The original has no bound."""
FIRST_PARTS = 0.25
"""An answer of a leader that has not answered yet may be so large, in the same unit."""
MEASURED = 8
"""One of so many answers is measured, by about so many of its records. It counts as much as all before it together."""
NAME_BYTES = 48


def bytes_of(reply: Message | None) -> float:
    """About how large an answer is."""
    if isinstance(reply, Datum):
        records = reply.publishers
        sample = records[:: len(records) // MEASURED + 1]
        return sum(map(size_of, sample)) * len(records) / len(sample) if sample else 0
    return NAME_BYTES * len(reply.counts) if isinstance(reply, Services) else 0


@dataclass(slots=True, eq=False)
class WaitingLookup:
    """A question that was not sent yet.

    Attributes:
        client: who asks.
        until: nobody needs its answer later, on the server's clock.
        weight: it counts for so many open questions.
    """

    client: Peer
    message: Message
    answered: Answered
    timeout_seconds: float
    until: float
    weight: int = 1


@dataclass(slots=True)
class AskedLeader:
    """The lookups at one leader.

    Attributes:
        part_bytes: see :attr:`slotreeve_servers.node.outbox.Outbox.part_bytes`.
        answer_bytes: how large the next answer is, as far as those before it tell.
        answers: how many came.
        open: questions without an answer, by weight.
        waiting: those that wait, by the holder of the key of who asks.
        most_open: so many may be without an answer, and one that is larger.
    """

    part_bytes: int
    answer_bytes: float
    answers: int = 0
    open: int = 0
    waiting: FairQueue[WaitingLookup] = field(default_factory=FairQueue)
    most_open: int = MOST_OPEN

    @property
    def takes_more(self) -> bool:
        """Whether it may be asked for one more: where none is open, it may."""
        return self.open < self.most_open and self.open * self.answer_bytes < OPEN_PARTS * self.part_bytes

    def answered(self, weight: int, reply: Message | None) -> None:
        """One question was answered, or failed."""
        self.open -= weight
        self.answers += 1
        if not self.answers % MEASURED and reply is not None:
            self.answer_bytes = (self.answer_bytes + bytes_of(reply)) / 2


class Lookups:
    """The lookups of all clients. Those of one client, or of all clients with one key, are asked in order, and the
    clients, or the keys, take turns. Nobody is asked for a client that has gone.

    A server that is asked for more than it can answer goes on storing, acknowledging and pushing: lookups alone wait,
    and fail once nobody needs their answers.

    Args:
        most_open: so many questions to one leader may be without an answer, by weight.
        first_parts: an answer of a leader that has not answered yet may be so large, in ``node.part_bytes``; 0 where
            answers are small.

    Attributes:
        shed: lookups that failed because their turn did not come in time.
    """

    def __init__(self, outbox: Outbox, most_open: int = MOST_OPEN, first_parts: float = FIRST_PARTS) -> None:
        self._outbox, self._most_open, self._first_parts = outbox, most_open, first_parts
        self._leaders: dict[Peer, AskedLeader] = {}
        self.shed = 0

    def ask(self, leader: Peer, lookup: WaitingLookup) -> None:
        """Ask the leader. ``lookup.answered`` is called once, with an error where the leader cannot be asked or the
        client has gone meanwhile, maybe before this method has returned."""
        asked = self._leaders.get(leader)
        if asked is None:
            part_bytes = self._outbox.part_bytes
            first_bytes = self._first_parts * part_bytes
            asked = self._leaders[leader] = AskedLeader(part_bytes, first_bytes, most_open=self._most_open)
        if asked.waiting or not asked.takes_more:
            asked.waiting.add(lookup.client.holder, lookup)
        elif not self._ask(leader, asked, lookup):
            self._forget_idle(leader, asked)

    def _go_on(self, leader: Peer, asked: AskedLeader) -> None:
        """Ask the next ones. Once one cannot be asked, most probably all that wait cannot: they are gone through in
        parts."""
        while asked.waiting and asked.takes_more:
            if not self._ask_next(leader, asked):
                self._outbox.pace(self._work_off, leader)
                return
        self._forget_idle(leader, asked)

    def _work_off(self, leader: Peer) -> Iterator[None]:
        asked = self._leaders.get(leader)
        while asked is not None and asked.waiting and asked.takes_more:
            self._ask_next(leader, asked)
            yield
        if asked is not None:
            self._forget_idle(leader, asked)

    def _ask_next(self, leader: Peer, asked: AskedLeader) -> bool:
        """Take the next one that waits. Returns whether the leader was asked."""
        lookup = asked.waiting.take()
        if self._outbox.silent_for(lookup.client) == math.inf:
            lookup.answered(None, ConnectionLost(f"{lookup.client.node} has gone"))
            return False
        if self._outbox.now() > lookup.until:
            self.shed += 1
            lookup.answered(None, RequestTimeout(f"{leader.node} is asked for more than it can answer in time"))
            return False
        return self._ask(leader, asked, lookup)

    def _ask(self, leader: Peer, asked: AskedLeader, lookup: WaitingLookup) -> bool:
        asked.open += lookup.weight
        answered = partial(self._answered, leader, asked, lookup)
        if self._outbox.ask(leader, lookup.message, answered, lookup.timeout_seconds):
            return True
        asked.open -= lookup.weight
        lookup.answered(None, ConnectionLost(f"{leader.node} takes no requests now"))
        return False

    def _forget_idle(self, leader: Peer, asked: AskedLeader) -> None:
        if not asked.open and not asked.waiting and self._leaders.get(leader) is asked:
            del self._leaders[leader]

    def _answered(
        self, leader: Peer, asked: AskedLeader, lookup: WaitingLookup, reply: Message | None, error: Exception | None
    ) -> None:
        asked.answered(lookup.weight, reply)
        lookup.answered(reply, error)
        self._go_on(leader, asked)
