"""A slot leader's question to all that are in sync: do you have what was streamed to you? A lease is acknowledged after
it, because no session server could send it again.

One question a turn to each follower, however many leases were stored. Who must have them is what the table says when
they are acknowledged: nobody waits for a holder that a newer table has made a learner.
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
        open: answers that are not there yet; each is one follower's about one slot.
    """

    slots: list[HeldSlot]
    done: Callable[[set[int]], None]
    open: int = 0
    failed: set[int] = field(default_factory=set)

    def settle(self, slot: HeldSlot, has_everything: bool) -> None:
        """One answer about one slot is there."""
        if not has_everything:
            self.failed.add(slot.slot.id)
        self.open -= 1
        if not self.open:
            self.done(self.failed)


@dataclass(eq=False, slots=True)
class _Question:
    """What one follower is asked.

    Attributes:
        waiting: who waits for its answer, by slot.
    """

    peer: Peer
    waiting: dict[HeldSlot, list[Confirmation]] = field(default_factory=dict)


class FollowerConfirmations:
    """Asks the followers at the end of the turn, behind what is streamed to them."""

    def __init__(self, outbox: Outbox, streams: Streams, in_sync: InSync) -> None:
        self._outbox, self._streams, self._in_sync = outbox, streams, in_sync
        self._waiting: list[Confirmation] = []
        self._open: dict[_Question, None] = {}
        self._ask = TurnEnd(outbox, self._ask_all)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is not there yet."""
        return bool(self._open)

    def confirm(self, slots: Iterable[HeldSlot], done: Callable[[set[int]], None]) -> None:
        """Call ``done`` once everybody that is in sync with these led slots has answered, with the numbers of the slots
        that one of them does not have. Who is in sync and does not follow at present does not have them."""
        self._waiting.append(Confirmation(list(slots), done))
        self._ask.soon()

    def table_changed(self) -> None:
        """The server follows a newer table. Who is not in sync by it need not answer; what is not led is not
        acknowledged. Called after :meth:`InSync.table_changed`."""
        for question in list(self._open):
            for slot in list(question.waiting):
                is_led = self._in_sync.is_led(slot)
                if not is_led or question.peer.node not in self._in_sync.needed(slot):
                    for confirmation in question.waiting.pop(slot):
                        confirmation.settle(slot, is_led)

    def _ask_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._streams.flush()
        by_slot: dict[HeldSlot, list[Confirmation]] = {}
        for confirmation in waiting:
            for slot in confirmation.slots:
                by_slot.setdefault(slot, []).append(confirmation)
        questions: dict[Peer, _Question] = {}
        for slot, several in by_slot.items():
            followers, has_everybody = self._followers(slot)
            for peer in followers:
                questions.setdefault(peer, _Question(peer)).waiting[slot] = several
            for confirmation in several:
                confirmation.open += len(followers)
                if not has_everybody:
                    confirmation.failed.add(slot.slot.id)
        for confirmation in waiting:
            if not confirmation.open:
                confirmation.done(confirmation.failed)
        for peer, question in questions.items():
            self._open[question] = None
            message = Confirm([SlotEpoch(slot.slot.id, slot.slot.leader_epoch) for slot in question.waiting])
            if not self._outbox.ask(peer, message, partial(self._answered, question), CONFIRM_SECONDS):
                self._answered(question, None, None)

    def _followers(self, slot: HeldSlot) -> tuple[list[Peer], bool]:
        """Whom to ask about a slot, and whether those are all that must have what is acknowledged."""
        if not self._in_sync.is_led(slot):
            return [], False  # a table that came within this turn has another leader, who may lack it
        needed = self._in_sync.needed(slot)
        followers = [peer for peer in slot.streams if peer.node in needed and not self._in_sync.is_silent(peer)]
        lacking = needed.difference(peer.node for peer in followers)
        for name in lacking:
            self._in_sync.not_confirmed(slot, name)
        return followers, not lacking

    def _answered(self, question: _Question, reply: Message | None, error: Exception | None) -> None:
        self._open.pop(question)
        stored = set[int]()
        if isinstance(reply, Answers):
            stored = {answer.slot for answer in reply.answers if answer.access is Access.ACCEPT}
        self._in_sync.answered(question.peer, is_silent=isinstance(error, RequestTimeout))
        for slot, waiting in question.waiting.items():
            has_everything = slot.slot.id in stored
            # A question over a connection that the holder has given up says nothing of it: it is asked again.
            if not has_everything and question.peer in slot.streams:
                self._in_sync.not_confirmed(slot, question.peer.node)
            for confirmation in waiting:
                confirmation.settle(slot, has_everything)
