"""Publishers whose session process is gone: how long they stay (original: ``SessionLeaseManager``). Pure."""

from __future__ import annotations

from slotreeve_servers.node.records import SlotStore


class Orphans:
    """Session processes that left the cluster, each with the time at which its records go.

    A client whose session server died replays through another within that time, under the next incarnation, so that
    its records change hands and nobody sees them disappear.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace = grace_seconds
        self._alive: set[str] = set()
        self._deadlines: dict[str, float] = {}

    def view_changed(self, before: set[str], alive: set[str], now: float) -> None:
        """The set of live session processes changed."""
        self._alive = alive
        for process in before - alive:
            self._deadlines.setdefault(process, now + self._grace)
        for process in alive:
            self._deadlines.pop(process, None)

    def adopt(self, store: SlotStore, now: float) -> None:
        """This server leads a slot anew: records of processes that left before it knew of them start their grace."""
        for process in {record.session for record in store.records()} - self._alive:
            self._deadlines.setdefault(process, now + self._grace)

    def due(self, now: float) -> list[str]:
        """The processes whose time has come; they are forgotten."""
        gone = sorted(process for process, deadline in self._deadlines.items() if deadline <= now)
        for process in gone:
            del self._deadlines[process]
        return gone
