"""The newest view from data servers, while the meta leader does not grant this session server a lease
(docs/decisions/0033-a-session-server-asks-data-servers-for-the-view.md). Pure."""

from __future__ import annotations

from functools import partial

from slotreeve.ports import Message
from slotreeve_protocol.meta_messages import GetNewerView, View

from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.outbox import Outbox, Peer
from slotreeve_servers.session.routes import Routes

ANSWER_SECONDS = 2.0


class ViewOfOthers:
    """Asks the linked data servers, one after the other and one at a time, for a view that is newer."""

    def __init__(self, outbox: Outbox, routes: Routes, membership: Membership) -> None:
        self._outbox, self._routes, self._membership = outbox, routes, membership
        self._last = ""
        self._is_asked = False

    def look(self) -> None:
        """Ask the next data server, unless there is a lease or another one has not answered yet."""
        if self._is_asked or self._membership.has_lease or not self._routes.linked:
            return
        names = sorted(self._routes.linked)
        self._last = next((name for name in names if name > self._last), names[0])
        message = GetNewerView(self._membership.view.revision)
        peer = self._routes.linked[self._last]
        self._is_asked = self._outbox.ask(peer, message, partial(self._answered, peer), ANSWER_SECONDS)

    def _answered(self, peer: Peer, reply: Message | None, error: Exception | None) -> None:
        self._is_asked = False
        if isinstance(reply, View):
            self._membership.learn(reply)
