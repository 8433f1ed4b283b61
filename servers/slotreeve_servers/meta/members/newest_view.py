"""The newest view that members have, for a leader whose meta state is older: it was set back, or is a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slotreeve.ports import Message
from slotreeve_protocol.meta_messages import GetNewerView, View

from slotreeve_servers.meta.members.heartbeats import Newest
from slotreeve_servers.node.outbox import Outbox, Peer

ANSWER_SECONDS = 2.0
"""A member that does not answer for this time has no view."""


class NewestView:
    """Asks the member that has it. ``found`` is called when there is something to go on from."""

    def __init__(self, outbox: Outbox, found: Callable[[], None]) -> None:
        self._outbox, self._found = outbox, found
        self._asked: Newest | None = None
        self._view: View | None = None

    def above(self, newest: Newest, old: View, peers: Iterable[Peer]) -> View | None:
        """The view to go on from: that of the member, or ``old`` where it gives none, as one of release 0.1. None while
        it is asked."""
        if self._asked != newest:
            self._asked, self._view = newest, None
            peer = next((peer for peer in peers if peer.node == newest.name), None)

            def answered(reply: Message | None, error: Exception | None) -> None:
                if self._asked is newest:
                    self._view = reply if isinstance(reply, View) else old
                    self._found()

            if peer is None or not self._outbox.ask(peer, GetNewerView(old.revision), answered, ANSWER_SECONDS):
                self._view = old
        return self._view

    def clear(self) -> None:
        """Forget it, as a new leader does."""
        self._asked = self._view = None
