"""Whoever is behind asks the sender: servers tell each other the revision of the newest view that they have
(docs/decisions/0056-who-is-behind-asks-the-sender.md). Pure."""

from __future__ import annotations

from slotreeve.ports import Message
from slotreeve_protocol.meta_messages import GetNewerView, View

from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.outbox import Outbox, Peer

ANSWER_SECONDS = 2.0


class NewerView:
    """Asks other members for a view that is newer than the own one, one member at a time, and answers who asks.

    Attributes:
        is_asked: a member was asked, and has not answered yet.
    """

    def __init__(self, outbox: Outbox, membership: Membership) -> None:
        self._outbox, self._membership = outbox, membership
        self.is_asked = False

    @property
    def revision(self) -> int:
        """Of the newest view here, for questions and answers to others."""
        return self._membership.view.revision

    def heard(self, peer: Peer, revision: int) -> None:
        """``peer`` has the view of this revision: ask for it if it is newer."""
        if revision > self.revision:
            self.ask(peer)

    def ask(self, peer: Peer) -> None:
        """Ask ``peer``, unless another one was asked and has not answered yet."""
        if not self.is_asked:
            self.is_asked = self._outbox.ask(peer, GetNewerView(self.revision), self._answered, ANSWER_SECONDS)

    def _answered(self, reply: Message | None, error: Exception | None) -> None:
        self.is_asked = False
        if isinstance(reply, View):
            self._membership.learn(reply)

    def answer(self, peer: Peer, message: GetNewerView) -> Message:
        """The view of this server, where it is newer than the one that the peer has."""
        return self._membership.newer_than(message.revision)
