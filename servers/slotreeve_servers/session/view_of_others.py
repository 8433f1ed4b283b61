"""The newest view from data servers, while the meta leader does not grant this session server a lease
(docs/decisions/0033-a-session-server-asks-data-servers-for-the-view.md). Pure."""

from __future__ import annotations

from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Outbox
from slotreeve_servers.session.routes import Routes

TURN_SECONDS = 0.5
"""Every so often the next data server is asked."""


class ViewOfOthers:
    """Asks the linked data servers, one after the other and one at a time, for a view that is newer."""

    def __init__(self, outbox: Outbox, routes: Routes, membership: Membership) -> None:
        self._routes, self._membership = routes, membership
        self._newer = NewerView(outbox, membership)
        self._last = ""

    def look(self) -> None:
        """Ask the next data server, unless there is a lease or another one has not answered yet."""
        if self._newer.is_asked or self._membership.has_lease or not self._routes.linked:
            return
        names = sorted(self._routes.linked)
        self._last = next((name for name in names if name > self._last), names[0])
        self._newer.ask(self._routes.linked[self._last])
