"""A meta leader that no data server reaches gives up the lead; so does one that no session server reaches, where there
is no data server, and one whose views are not stored.

The other meta servers may follow a leader that all other servers are cut off from: elections use connections of their
own. Nobody then replaces a server that dies, and no data server is confirmed as a leader of slots, although another
meta server may be reached. Nor does a leader replace anybody that keeps its lease, but cannot write: a road to a
database may let pass what is small only. The leader cannot know whether another one could. So it resigns, and each time
that it leads again to no purpose, it waits twice as long (docs/decisions/0057-who-is-cut-off.md).
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
        self._silence_wait = self._failing_wait = self._first
        self._failing_since: float | None = None

    def adopted(self) -> None:
        """This server leads anew. No view has failed yet."""
        self._failing_since = None

    def committed(self) -> None:
        """A view is stored."""
        self._failing_since, self._failing_wait = None, self._first

    def not_needed(self) -> None:
        """There is nothing to store any more, which does not prove that it would be stored."""
        self._failing_since = None

    def not_committed(self) -> None:
        """A view is not stored, or not known to be, or there is no plan for one."""
        if self._failing_since is None:
            self._failing_since = self._outbox.attended()

    def heard(self, role: Role) -> None:
        """A member was heard: where it was awaited, the next silence is a new one."""
        if role is self._leases.awaited:
            self._silence_wait = self._first

    def look(self, meta_servers: int) -> None:
        """Resign if nobody who is awaited has been heard for too long, or no view was stored. Call it now and then
        while it may act. The only one of the ``meta_servers`` does not resign."""
        now = self._outbox.attended()
        silent_seconds = self._leases.silent_seconds(now)
        failing_seconds = now - self._failing_since if self._failing_since is not None else 0.0
        if meta_servers < 2:
            return
        if silent_seconds >= self._silence_wait:
            self._silence_wait = _longer(self._silence_wait)
            what, may = f"no {self._leases.awaited} server has been heard", "they may reach another meta server"
        elif failing_seconds >= self._failing_wait:
            self._failing_wait = _longer(self._failing_wait)
            what, may = "no view could be planned and stored", "another meta server may be able to"
        else:
            return
        log.error(
            "ALARM: %s for %.1f s; this leader resigns, because %s", what, max(silent_seconds, failing_seconds), may
        )
        self._outbox.resign(None)


def _longer(wait: float) -> float:
    return max(wait, min(2 * wait, LONGEST_SECONDS))
