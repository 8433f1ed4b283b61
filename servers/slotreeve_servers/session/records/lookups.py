"""What clients look up is asked of the slots' leaders, a little at a time, so that what cannot wait need not wait for
it: what acknowledges registrations comes over the same links."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from slotreeve.errors import ConnectionLost, RequestTimeout
from slotreeve.ports import Message

from slotreeve_servers.node.outbox import Answered, Outbox, Peer

AT_ONCE = 16
"""So many questions to one leader may be without an answer. Each answer may be a whole page of a service, and an
acknowledgement waits behind those that the leader has sent. The original has no bound."""


class WaitingLookup(NamedTuple):
    """A question that was not sent yet. ``until``: nobody needs its answer later, on the server's clock."""

    message: Message
    answered: Answered
    timeout_seconds: float
    until: float


@dataclass(slots=True)
class AskedLeader:
    """The lookups at one leader.

    Attributes:
        open: questions without an answer.
        waiting: those that wait, by the client that asks. The next client is the first.
    """

    open: int = 0
    waiting: OrderedDict[Peer, deque[WaitingLookup]] = field(default_factory=OrderedDict)


class Lookups:
    """The lookups of all clients. Those of one client are asked in order, and the clients take turns.

    A server that is asked for more than it can answer goes on storing, acknowledging and pushing: lookups alone wait,
    and fail once nobody needs their answers.

    Attributes:
        shed: lookups that failed because their turn did not come in time.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._leaders: dict[Peer, AskedLeader] = {}
        self.shed = 0

    def ask(self, client: Peer, leader: Peer, lookup: WaitingLookup) -> None:
        """Ask the leader on behalf of the client. ``lookup.answered`` is called once, with an error where the leader
        cannot be asked; maybe before this method has returned."""
        asked = self._leaders.setdefault(leader, AskedLeader())
        asked.waiting.setdefault(client, deque()).append(lookup)
        self._go_on(leader, asked)

    def _go_on(self, leader: Peer, asked: AskedLeader) -> None:
        while asked.waiting and asked.open < AT_ONCE:
            client, waiting = asked.waiting.popitem(last=False)
            lookup = waiting.popleft()
            if waiting:
                asked.waiting[client] = waiting
            if self._outbox.now() > lookup.until:
                self.shed += 1
                lookup.answered(None, RequestTimeout(f"{leader.node} is asked for more than it can answer in time"))
                continue
            asked.open += 1
            answered = partial(self._answered, leader, asked, lookup)
            if not self._outbox.ask(leader, lookup.message, answered, lookup.timeout_seconds):
                asked.open -= 1
                lookup.answered(None, ConnectionLost(f"{leader.node} takes no requests now"))
        if not asked.open and not asked.waiting:
            self._leaders.pop(leader, None)

    def _answered(
        self, leader: Peer, asked: AskedLeader, lookup: WaitingLookup, reply: Message | None, error: Exception | None
    ) -> None:
        asked.open -= 1
        lookup.answered(reply, error)
        self._go_on(leader, asked)
