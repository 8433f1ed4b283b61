"""The newest view that members have, for a leader whose meta state is older: it was set back, or is a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from slotreeve.model.nodes import Node
from slotreeve.ports import Message
from slotreeve_protocol.meta_messages import GetNewerView, View

from slotreeve_servers.meta.members.heartbeats import Newest, is_believed
from slotreeve_servers.meta.members.leases import Leases
from slotreeve_servers.node.outbox import Outbox, Peer

ANSWER_SECONDS = 2.0
"""A member that does not answer for this time has no view."""
MOST_ASKED = 5
"""So many members are asked, one after the other."""


class NewestView:
    """Asks the members that have it, until one gives it. The members of that one may live, and not have been heard yet:
    each gets a lease.

    Args:
        slots: the number of slots. A table of another number is not the cluster's.
        answered: is called after each answer.
    """

    def __init__(self, outbox: Outbox, leases: Leases, slots: int, answered: Callable[[], None]) -> None:
        self._outbox, self._leases, self._slots, self._answered = outbox, leases, slots, answered
        self._newest: Newest | None = None
        self._asked: list[str] = []
        self._is_open = False
        self._view: View | None = None

    def above(self, newest: Newest, old: View, having: Sequence[Node], peers: Iterable[Peer]) -> View | None:
        """The view to go on from: that of one of those who are ``having`` a newer one, best first, or ``old`` where
        none of them gives one, as those of release 0.1. None while they are asked."""
        if self._newest != newest:
            self.clear()
            self._newest = newest
        if self._view is not None or self._is_open:
            return self._view
        connected = {peer.process_id: peer for peer in peers}  # of several, the one that connected last
        for node in having:
            if node.process_id in connected and node.process_id not in self._asked and len(self._asked) < MOST_ASKED:
                self._asked.append(node.process_id)
                if self._ask(connected[node.process_id], old.revision):
                    return None
        self._view = old
        return old

    def _ask(self, peer: Peer, revision: int) -> bool:
        newest = self._newest

        def answered(reply: Message | None, error: Exception | None) -> None:
            if self._newest is newest:
                self._is_open = False
                if isinstance(reply, View) and self._is_believed(reply):
                    self._view = reply
                    self._leases.expect([*reply.data, *reply.sessions], self._outbox.attended())
                self._answered()

        self._is_open = self._outbox.ask(peer, GetNewerView(revision), answered, ANSWER_SECONDS)
        return self._is_open

    def _is_believed(self, view: View) -> bool:
        return is_believed(view.revision, view.table.epoch) and len(view.table.slots) in (0, self._slots)

    def clear(self) -> None:
        """Forget it, as a new leader does."""
        self._newest, self._asked, self._is_open, self._view = None, [], False, None
