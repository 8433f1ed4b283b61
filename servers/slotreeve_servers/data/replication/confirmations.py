"""A slot leader's question to all that are in sync: do you have what was streamed to you? A lease is acknowledged after
it, because no session server could send it again.

One question a turn to each follower, however many leases were stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from slotreeve.errors import RequestTimeout
from slotreeve.ports import Message
from slotreeve_protocol.slot_messages import Access, Answers, Confirm, SlotEpoch

from slotreeve_servers.data.replication.in_sync import CONFIRM_SECONDS, InSync
from slotreeve_servers.data.replication.streams import Streams
from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.node.outbox import Outbox, Peer, TurnEnd


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

    def __init__(self, outbox: Outbox, streams: Streams, in_sync: InSync) -> None:
        self._outbox, self._streams, self._in_sync = outbox, streams, in_sync
        self._waiting: list[Confirmation] = []
        self._ask = TurnEnd(outbox, self._ask_all)

    def confirm(self, slots: Iterable[HeldSlot], done: Callable[[set[int]], None]) -> None:
        """Call ``done`` once everybody that is in sync with these led slots has answered, with the numbers of the slots
        that one of them does not have. Who is in sync and does not follow at present does not have them."""
        self._waiting.append(Confirmation(list(slots), done))
        self._ask.soon()

    def _ask_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._streams.flush()
        asked: dict[Peer, list[HeldSlot]] = {}
        failed: set[int] = set()
        for slot in {slot: None for confirmation in waiting for slot in confirmation.slots}:
            number = slot.slot.id
            if not self._in_sync.is_led(slot):
                failed.add(number)  # a table that came within this turn has another leader, who may lack it
                continue
            needed = self._in_sync.needed(slot)
            for peer in slot.streams:
                if peer.node in needed:
                    needed.discard(peer.node)
                    asked.setdefault(peer, []).append(slot)
            for name in needed:
                failed.add(number)
                self._in_sync.not_confirmed(slot, name, is_silent=False)
        concerned: dict[Peer, list[Confirmation]] = {peer: [] for peer in asked}
        for confirmation in waiting:
            numbers = {slot.slot.id for slot in confirmation.slots}
            confirmation.failed |= numbers & failed
            for peer, several in asked.items():
                if any(slot.slot.id in numbers for slot in several):
                    concerned[peer].append(confirmation)
                    confirmation.open += 1
            if not confirmation.open:
                confirmation.done(confirmation.failed)
        for peer, several in asked.items():
            message = Confirm([SlotEpoch(slot.slot.id, slot.slot.leader_epoch) for slot in several])
            answered = partial(self._answered, peer, concerned[peer], several)
            if not self._outbox.ask(peer, message, answered, CONFIRM_SECONDS):
                answered(None, None)

    def _answered(
        self,
        peer: Peer,
        waiting: list[Confirmation],
        asked: list[HeldSlot],
        reply: Message | None,
        error: Exception | None,
    ) -> None:
        stored = set[int]()
        if isinstance(reply, Answers):
            stored = {answer.slot for answer in reply.answers if answer.access is Access.ACCEPT}
        missing = {slot.slot.id for slot in asked} - stored
        for slot in asked:
            # A question over a connection that the holder has given up says nothing of it: it is asked again.
            if slot.slot.id in missing and peer in slot.streams:
                self._in_sync.not_confirmed(slot, peer.node, is_silent=isinstance(error, RequestTimeout))
        for confirmation in waiting:
            confirmation.failed |= {slot.slot.id for slot in confirmation.slots} & missing
            confirmation.open -= 1
            if not confirmation.open:
                confirmation.done(confirmation.failed)
