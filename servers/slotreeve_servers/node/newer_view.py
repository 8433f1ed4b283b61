"""A newer view from another member (docs/decisions/0033-a-session-server-asks-data-servers-for-the-view.md). Pure."""

from __future__ import annotations

from slotreeve.ports import Message
from slotreeve_protocol.meta_messages import GetNewerView, View

from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.outbox import Outbox, Peer

ANSWER_SECONDS = 2.0


class NewerView:
    """Asks other members for a view that is newer than the own one, one member at a time.

    Attributes:
        is_asked: a member was asked, and has not answered yet.
    """

    def __init__(self, outbox: Outbox, membership: Membership) -> None:
        self._outbox, self._membership = outbox, membership
        self.is_asked = False

    def ask(self, peer: Peer) -> None:
        """Ask ``peer``, unless another one was asked and has not answered yet."""
        if not self.is_asked:
            message = GetNewerView(self._membership.view.revision)
            self.is_asked = self._outbox.ask(peer, message, self._answered, ANSWER_SECONDS)

    def _answered(self, reply: Message | None, error: Exception | None) -> None:
        self.is_asked = False
        if isinstance(reply, View):
            self._membership.learn(reply)
