"""Who is in sync with a slot's leader (docs/copies.md): the leader's side, which the meta leader commits.

A learner that follows is asked two questions, each sent behind all that it was streamed, under the table that the
leader has. After the first answer acknowledgements wait for it, too. So when it answers the second one, it has all that
was acknowledged before, and it is ready. The report of that binds until there is a newer table: nothing is acknowledged
that the learner does not have. Who keeps an acknowledgement waiting is reported as lost, and the meta leader makes it a
learner by the next table.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from functools import partial

from slotreeve.errors import RequestTimeout
from slotreeve.ports import Message
from slotreeve_protocol.meta_messages import SlotCopies
from slotreeve_protocol.slot_messages import Access, Answers, Confirm, SlotEpoch

from slotreeve_servers.data.replication.streams import Streams
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.outbox import Outbox, Peer, Retry, TurnEnd

CONFIRM_SECONDS = 1.5
"""A follower that does not answer for this time, or does not follow, counts as one that is not reached."""
ABSENT_SECONDS = 12.0
"""A learner that has asked for nothing for this time does not reach its leader. A silent link is ended before that."""
AGAIN_SECONDS = 0.05
"""A learner that does not have the table yet is asked again after this time."""


@dataclass(eq=False, slots=True)
class _Copies:
    """The other holders of one led slot, as far as there is something to say.

    Attributes:
        on_trial: learners that have answered one question. Acknowledgements wait for them.
        ready: learners that have answered two, and have everything.
        bound: learners that were reported as ready under this table. The next one may make them followers.
        late: since when an acknowledgement waits for a holder that does not follow.
        lost: holders that are needed for acknowledgements and are not reached.
        awaited: since when each learner that does not copy the slot is awaited. ``absent``: for too long.
    """

    slot: HeldSlot
    on_trial: set[Peer] = field(default_factory=set)
    ready: set[Peer] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    late: dict[str, float] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    awaited: dict[str, float] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)

    def lacks(self, name: str) -> bool:
        """Whether this server learns the slot, and is not ready."""
        return name in self.slot.slot.learners and all(peer.node != name for peer in self.ready)

    def is_ready(self, peer: Peer) -> None:
        """A learner has everything."""
        self.forget(peer)
        self.ready.add(peer)
        self.bound.add(peer.node)
        self.lost.discard(peer.node)
        self.late.pop(peer.node, None)

    def forget(self, peer: Peer) -> None:
        """What a learner has answered counts no more."""
        self.on_trial.discard(peer)
        self.ready.discard(peer)

    def follow_row(self, is_newer: bool, has_missed_one: bool) -> bool:
        """The slot may have another row. Whether there is still something to say or to ask.

        What was said under an older table counts no more, so it binds no more. Who is still ready is reported again.
        """
        row = self.slot.slot
        learning = () if has_missed_one else [peer for peer in self.slot.streams if peer.node in row.learners]
        self.on_trial.intersection_update(learning)
        self.ready.intersection_update(learning)
        if is_newer:
            self.bound = {peer.node for peer in self.ready}
        needed = self.bound.union(row.followers)
        self.lost.intersection_update(needed)
        self.late = {name: since for name, since in self.late.items() if name in needed}
        self.absent.intersection_update(row.learners)
        self.awaited = {name: since for name, since in self.awaited.items() if name in row.learners}
        return bool(row.learners or self.lost or self.late)

    def look_for_learners(self, here: Set[str], now: float) -> bool:
        """``here``: the holders that are streamed to and heard. Whether others are absent than before."""
        before = set(self.absent)
        for name in self.slot.slot.learners:
            if name in here:
                self.awaited.pop(name, None)
                self.absent.discard(name)
            elif now - self.awaited.setdefault(name, now) >= ABSENT_SECONDS:
                self.absent.add(name)
        return self.absent != before


class InSync:
    """The other holders of the slots that one server leads."""

    def __init__(self, outbox: Outbox, slots: HeldSlots, streams: Streams, membership: Membership) -> None:
        self._outbox, self._slots, self._streams, self._membership = outbox, slots, streams, membership
        self._copies: dict[int, _Copies] = {}
        self._table_epoch = 0
        self._asked: set[Peer] = set()
        self._silent: set[Peer] = set()
        self._ask = TurnEnd(outbox, self._ask_learners)
        self._ask_again = Retry(outbox, AGAIN_SECONDS, self._ask_learners)

    def table_changed(self) -> None:
        """The server follows another view, most often with another table."""
        before, self._copies = self._copies, {}
        is_newer, self._table_epoch = self._slots.epoch != self._table_epoch, self._slots.epoch
        for slot in self._slots.led():
            number = slot.slot.id
            copies = before.get(number)
            if copies is None or copies.slot is not slot:
                if not slot.slot.learners:
                    continue
                copies = _Copies(slot)
            if copies.follow_row(is_newer, self._slots.has_missed_one):
                self._copies[number] = copies
        self._ask.soon()

    def stream_begun(self, slot: HeldSlot) -> None:
        """A holder of this led slot is streamed to from now on."""
        if slot.slot.learners:
            self._ask.soon()

    def begins_anew(self, slot: HeldSlot, peer: Peer) -> None:
        """A holder of this led slot copies it from the start: what it answered about the copy before counts no more."""
        copies = self._copies.get(slot.slot.id)
        if copies is not None:
            copies.forget(peer)

    def closed(self, peer: Peer) -> None:
        """The connection to a holder has ended."""
        self._silent.discard(peer)
        for copies in self._copies.values():
            copies.forget(peer)

    def reports(self) -> list[SlotCopies]:
        """What the next heartbeat says."""
        return [
            SlotCopies(
                number,
                copies.slot.slot.leader_epoch,
                sorted({peer.node for peer in copies.ready}),
                sorted(copies.lost),
                sorted(copies.absent),
            )
            for number, copies in self._copies.items()
            if copies.ready or copies.lost or copies.absent
        ]

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def is_led(self, slot: HeldSlot) -> bool:
        """Whether this server leads the slot still, under the same leader epoch."""
        return self._slots.has(slot) and slot.leads

    def needed(self, slot: HeldSlot) -> set[str]:
        """The holders that must have what is acknowledged: the followers, and learners that were reported as ready or
        are on trial."""
        copies = self._copies.get(slot.slot.id)
        if copies is None:
            return set(slot.slot.followers)
        return {*copies.bound, *(peer.node for peer in copies.on_trial), *slot.slot.followers}

    def answered(self, peer: Peer, is_silent: bool) -> None:
        """Whether a holder has left a question without an answer. It is not reached then, whatever slot the question
        was about: nobody waits for it in another one before it answers again."""
        if is_silent:
            self._silent.add(peer)
        else:
            self._silent.discard(peer)

    def is_silent(self, peer: Peer) -> bool:
        """Whether a holder has not answered the last question."""
        return peer in self._silent

    def not_confirmed(self, slot: HeldSlot, name: str) -> None:
        """A holder that is needed did not confirm that it has everything of a slot. One that is silent is lost, and
        asked whether it answers again: a table without it may be long in coming (``meta.protect_below``). Another one
        may follow a moment later."""
        if self._slots.get(slot.slot.id) is not slot or name not in self.needed(slot):
            return
        copies = self._copies.setdefault(slot.slot.id, _Copies(slot))
        on_trial = {peer for peer in copies.on_trial if peer.node == name}
        silent = [peer for peer in slot.streams if peer.node == name and peer in self._silent]
        if on_trial:
            copies.on_trial -= on_trial  # nobody was told yet that it is ready
        elif silent:
            self._lose(copies, name)
            for peer in silent:
                self._put(peer, Confirm([]), ())
        else:
            copies.late.setdefault(name, self._outbox.attended())

    def _lose(self, copies: _Copies, name: str) -> None:
        copies.late.pop(name, None)
        copies.ready = {peer for peer in copies.ready if peer.node != name}
        if name not in copies.lost:
            copies.lost.add(name)
            self._membership.heartbeat_soon()

    def look(self) -> float | None:
        """Report the holders for which acknowledgements have waited too long, and the learners that do not come."""
        now = self._outbox.attended()
        for copies in self._copies.values():
            following = {peer.node for peer in copies.slot.streams}
            for name, since in list(copies.late.items()):
                if name in following:
                    del copies.late[name]
                elif now - since >= CONFIRM_SECONDS:
                    self._lose(copies, name)
            streamed = (*copies.slot.streams, *copies.slot.copying)
            here = {peer.node for peer in streamed if self._outbox.silent_for(peer) < ABSENT_SECONDS}
            if copies.look_for_learners(here, now):
                self._membership.heartbeat_soon()
        return None

    # --- learners that have everything -------------------------------------------------------------------------------

    def _ask_learners(self) -> None:
        self._streams.flush()
        view = self._membership.view
        asked: dict[Peer, list[_Copies]] = {}
        for copies in self._copies.values():
            for peer in copies.slot.streams if copies.slot.slot.learners else ():
                if copies.lacks(peer.node) and peer not in self._asked:
                    asked.setdefault(peer, []).append(copies)
        for peer, several in asked.items():
            slots = [SlotEpoch(copies.slot.slot.id, copies.slot.slot.leader_epoch) for copies in several]
            if self._streams.is_through(peer):
                self._put(peer, Confirm(slots, view.table.epoch, view.revision), several)
            else:
                self._ask_again.later()

    def _put(self, peer: Peer, question: Confirm, about: Iterable[_Copies]) -> None:
        """Ask a holder, unless it has not answered yet."""
        if peer in self._asked:
            return
        if self._outbox.ask(peer, question, partial(self._answered, peer, about), CONFIRM_SECONDS):
            self._asked.add(peer)
        else:
            self._ask_again.later()

    def _answered(self, peer: Peer, asked: Iterable[_Copies], reply: Message | None, error: Exception | None) -> None:
        """A learner has answered. An answer from before a table that left it out only puts it on trial again."""
        self._asked.discard(peer)
        self.answered(peer, is_silent=isinstance(error, RequestTimeout))
        stored = set[int]()
        if isinstance(reply, Answers):
            stored = {answer.slot for answer in reply.answers if answer.access is Access.ACCEPT}
        for copies in asked:
            if copies.slot.slot.id not in stored or peer not in copies.slot.streams:
                copies.on_trial.discard(peer)
            elif peer not in copies.on_trial:
                copies.on_trial.add(peer)
                self._ask.soon()
            else:
                copies.is_ready(peer)
        # Each report makes a table. A learner of many slots is reported with the heartbeats until it has all of them.
        if not any(copies.lacks(peer.node) for copies in self._copies.values()):
            self._membership.heartbeat_soon()
        self._ask_again.later()
