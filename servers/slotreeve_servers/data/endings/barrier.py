"""What was on its way has arrived: a data server asks every session server to deliver before registrations end.

Two servers report about one client, and their messages arrive in any order. So a mark goes to each session process that
is a member or linked, and comes back behind everything that was to be sent before it (docs/endings.md). The original
removes at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from slotreeve.ports import Message
from slotreeve_protocol.slot_messages import Answers, Confirm, SlotEpoch

from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.node.outbox import Outbox, Peer

AGAIN_SECONDS = 0.05
"""A session server that is not connected, or did not answer, is asked again after this time."""


@dataclass(eq=False, slots=True)
class MarkRound:
    """One mark to every session server.

    Attributes:
        needs_view: it passes by a view that is not old only: a session server may have joined, and a client be there.
        ends_at: in attended seconds; then it passes, whoever has not answered.
        sessions: the session processes at which clients may have been at any time in this round.
        asked: those that have been asked and may still answer. ``answered``: those that have.
        is_incomplete: one of them never answered, so that a client may be waiting to be let in there.
    """

    slots: list[SlotEpoch]
    needs_view: bool
    ends_at: float
    sessions: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    is_incomplete: bool = False


class Barrier:
    """Asks in rounds, one at a time.

    Args:
        passed: called when a round is over, with whether every session server has answered.
    """

    def __init__(self, outbox: Outbox, sessions: SessionServers, passed: Callable[[bool], None]) -> None:
        self._outbox, self._sessions, self._passed = outbox, sessions, passed
        self._round: MarkRound | None = None

    @property
    def is_open(self) -> bool:
        """Whether a round is under way."""
        return self._round is not None

    def begin(self, slots: Iterable[SlotEpoch], needs_view: bool, longest_seconds: float) -> None:
        """Begin a round: ask every session server for what it has on its way for these slots."""
        self._round = MarkRound(list(slots), needs_view, self._outbox.attended() + longest_seconds)
        self._ask(self._round)

    def _ask(self, current: MarkRound) -> None:
        """Ask each session server that has not answered; end the round where all have, or its time is over."""
        if current is not self._round:
            return
        sessions = self._sessions.with_clients()
        is_over = self._outbox.attended() >= current.ends_at
        current.sessions |= sessions.keys()
        unanswered = sessions.keys() - current.answered
        if (is_over and unanswered) or not current.sessions - current.answered <= sessions.keys():
            current.is_incomplete = True
        if is_over or self._is_complete(current):
            self._end_when_read(current)
            return
        for process_id in sorted(unanswered - current.asked):
            peer = sessions[process_id]
            if peer is not None:
                self._ask_one(current, process_id, peer)
        self._outbox.after(AGAIN_SECONDS, partial(self._ask, current))

    def _ask_one(self, current: MarkRound, process_id: str, peer: Peer) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            if current is not self._round:
                return
            current.asked.discard(process_id)
            if isinstance(reply, Answers):
                current.answered.add(process_id)
                # The last one asked looks at all of them: once a round, however many session servers there are.
                if not current.asked and self._is_complete(current):
                    self._end_when_read(current)

        if self._outbox.ask(peer, Confirm(current.slots), answered, math.inf):
            current.asked.add(process_id)

    def _is_complete(self, current: MarkRound) -> bool:
        if not current.answered.issuperset(self._sessions.with_clients()):
            return False
        return not current.needs_view or self._sessions.is_current(self._outbox.now())

    def _end_when_read(self, current: MarkRound) -> None:
        """End the round after what has arrived: a session server may have sent the registrations of a client that
        came back after it had answered."""
        self._outbox.when_read(partial(self._end, current))

    def _end(self, current: MarkRound) -> None:
        if current is self._round:
            self._round = None
            self._passed(not current.is_incomplete)
