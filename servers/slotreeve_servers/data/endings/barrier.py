"""What was on its way has arrived: a data server asks every session server to deliver before registrations end.

Two servers report about one client, and their messages arrive in any order. So a mark goes to each session process that
is a member or linked, and comes back behind everything that was to be sent before it (docs/endings.md). The original
removes at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from slotreeve.ports import Message
from slotreeve_protocol.slot_messages import Answers, Confirm, SlotEpoch

from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.node.outbox import Outbox, Peer

AGAIN_SECONDS = 0.05
"""A session server that is not connected, or did not answer, is asked again after this time."""


class Barrier:
    """One mark to every session server, for what it has on its way for these slots. :meth:`ask` begins.

    Args:
        lost: registrations of lost clients are among those that may end. Then the round passes only where the view is
            not old, because a session server may have joined and a client be there; and a session server that stood
            still answers after the clients that tried to connect meanwhile.
        longest_seconds: after so long it passes, whoever has not answered.
        passed: called when the round is over, with whether every session server at which clients may have been at any
            time in this round has answered. Where one has not, a client may be waiting to be let in there.
    """

    def __init__(
        self,
        outbox: Outbox,
        sessions: SessionServers,
        slots: Iterable[SlotEpoch],
        lost: bool,
        longest_seconds: float,
        passed: Callable[[bool], None],
    ) -> None:
        self._outbox, self._sessions, self._passed = outbox, sessions, passed
        self._mark, self._needs_view = Confirm(list(slots), arrivals=lost), lost
        self._ends_at = outbox.attended() + longest_seconds
        self._seen, self._asked, self._answered = set[str](), set[str](), set[str]()
        self._is_over = False

    def ask(self) -> None:
        """Ask each session server that has not answered; end the round where all have, or its time is over."""
        if self._is_over:
            return
        sessions = self._sessions.with_clients()
        self._seen |= sessions.keys()
        if self._outbox.attended() >= self._ends_at or self._is_complete():
            self._end_when_read()
            return
        for process_id in sorted(sessions.keys() - self._answered - self._asked):
            peer = sessions[process_id]
            if peer is not None:
                self._ask_one(process_id, peer)
        self._outbox.after(AGAIN_SECONDS, self.ask)

    def _ask_one(self, process_id: str, peer: Peer) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            self._asked.discard(process_id)
            if isinstance(reply, Answers):
                self._answered.add(process_id)
                # The last one asked looks at all of them: once a round, however many session servers there are.
                if not self._asked and self._is_complete():
                    self._end_when_read()

        if self._outbox.ask(peer, self._mark, answered, math.inf):
            self._asked.add(process_id)

    def _is_complete(self) -> bool:
        if not self._answered.issuperset(self._sessions.with_clients()):
            return False
        return not self._needs_view or self._sessions.is_current(self._outbox.now())

    def _end_when_read(self) -> None:
        """End the round after what has arrived: a session server may have sent the registrations of a client that
        came back after it had answered."""
        self._outbox.when_read(self._pass)

    def _pass(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._passed(self._seen <= self._answered)
