"""A slot leader's question to its followers: do you have what was streamed to you? A lease is acknowledged after it,
because no session server could send it again.

One question a turn to each follower, however many leases were stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from slotreeve.ports import Message
from slotreeve_protocol.lease_messages import Confirm, SlotEpoch
from slotreeve_protocol.slot_messages import Access, Answers

from slotreeve_servers.data.slots import HeldSlot
from slotreeve_servers.data.streams import Streams
from slotreeve_servers.node.outbox import Outbox, Peer, TurnEnd

CONFIRM_SECONDS = 1.5
"""A follower that does not answer within this time counts as one that does not have it."""


@dataclass(eq=False, slots=True)
class Confirmation:
    """What somebody waits for.

    Attributes:
        slots: what was stored is in these.
        done: is called once, with the numbers of the slots of which some follower does not have everything.
        open: followers that have not answered yet.
    """

    slots: list[HeldSlot]
    done: Callable[[set[int]], None]
    open: int = 0
    failed: set[int] = field(default_factory=set)


class FollowerConfirmations:
    """Asks the followers at the end of the turn, behind what is streamed to them."""

    def __init__(self, outbox: Outbox, streams: Streams) -> None:
        self._outbox, self._streams = outbox, streams
        self._waiting: list[Confirmation] = []
        self._ask = TurnEnd(outbox, self._ask_all)

    def confirm(self, slots: Iterable[HeldSlot], done: Callable[[set[int]], None]) -> None:
        """Call ``done`` once every follower of these led slots has answered, with the numbers of the slots that one of
        them does not have. A follower that the table names and that is not in sync does not have them."""
        self._waiting.append(Confirmation(list(slots), done))
        self._ask.soon()

    def _ask_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._streams.flush()
        asked: dict[Peer, dict[int, int]] = {}
        for confirmation in waiting:
            peers: set[Peer] = set()
            for slot in confirmation.slots:
                row = slot.slot
                if not {peer.node for peer in slot.streams}.issuperset(row.followers):
                    confirmation.failed.add(row.id)
                for peer in slot.streams:
                    peers.add(peer)
                    asked.setdefault(peer, {})[row.id] = row.leader_epoch
            confirmation.open = len(peers)
        by_peer = {peer: [c for c in waiting if any(peer in slot.streams for slot in c.slots)] for peer in asked}
        for confirmation in waiting:
            if not confirmation.open:
                confirmation.done(confirmation.failed)
        for peer, slots in asked.items():
            message = Confirm([SlotEpoch(number, epoch) for number, epoch in slots.items()])
            answered = partial(self._answered, by_peer[peer], set(slots))
            if not self._outbox.ask(peer, message, answered, CONFIRM_SECONDS):
                answered(None, None)

    def _answered(
        self, waiting: list[Confirmation], asked: set[int], reply: Message | None, error: Exception | None
    ) -> None:
        stored = set[int]()
        if isinstance(reply, Answers):
            stored = {answer.slot for answer in reply.answers if answer.access is Access.ACCEPT}
        missing = asked - stored
        for confirmation in waiting:
            confirmation.failed |= {slot.slot.id for slot in confirmation.slots} & missing
            confirmation.open -= 1
            if not confirmation.open:
                confirmation.done(confirmation.failed)
