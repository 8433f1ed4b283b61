"""A meta leader that no data server reaches gives up the lead; so does one that no session server reaches, where there
is no data server.

The other meta servers may follow a leader that all other servers are cut off from: elections use connections of their
own. Nobody then replaces a server that dies, and no data server is confirmed as a leader of slots, although another
meta server may be reached. The leader cannot know. So it resigns, and each time that it leads again without being
reached, it waits twice as long (docs/decisions/0057-who-is-cut-off.md).
"""

from __future__ import annotations

import logging

from slotreeve.model.nodes import Role

from slotreeve_servers.meta.effects import MetaOutbox
from slotreeve_servers.meta.members.leases import Leases

log = logging.getLogger("slotreeve.meta")

FIRST_LEASES = 2
"""A leader gives up the lead after a silence of so many leases."""
LONGEST_SECONDS = 300.0
"""The wait does not grow beyond that. A cluster whose data servers are all dead elects a new leader so often at most
for each of its meta servers."""


class Unreached:
    """When the leader gives up the lead.

    Args:
        leases: those of its members; they know when one was heard.
        lease_seconds: how long a lease lasts.
    """

    def __init__(self, outbox: MetaOutbox, leases: Leases, lease_seconds: float) -> None:
        self._outbox, self._leases = outbox, leases
        self._first = FIRST_LEASES * lease_seconds
        self._wait = self._first

    def heard(self, role: Role) -> None:
        """A member was heard: where it was awaited, the next silence is a new one."""
        if role is self._leases.awaited:
            self._wait = self._first

    def look(self, meta_servers: int) -> None:
        """Resign if nobody who is awaited has been heard for too long. Call it now and then while it may act. The only
        one of the ``meta_servers`` does not resign."""
        silent_seconds = self._leases.silent_seconds(self._outbox.attended())
        if silent_seconds < self._wait or meta_servers < 2:
            return
        self._wait = max(self._wait, min(2 * self._wait, LONGEST_SECONDS))
        log.error(
            "ALARM: no %s server has been heard for %.1f s; this leader resigns, because they may reach another meta "
            "server",
            self._leases.awaited,
            silent_seconds,
        )
        self._outbox.resign(None)
