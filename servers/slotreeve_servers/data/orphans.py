"""Records whose session process has left the cluster, and how long they stay (original: ``SessionLeaseManager``).

Pure: time is an argument.
"""

from __future__ import annotations

from slotreeve_servers.node.records import SlotStore


class Orphans:
    """Session processes that left the cluster, each with the time at which its records are removed.

    A client whose session server died replays its registrations at another one within that time, under the next
    incarnation: its records change hands, and no subscriber sees them disappear.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace = grace_seconds
        self._alive: set[str] = set()
        self._deadlines: dict[str, float] = {}

    def view_changed(self, before: set[str], alive: set[str], now: float) -> None:
        """The set of live session processes changed."""
        self._alive = alive
        for process_id in before - alive:
            self._deadlines.setdefault(process_id, now + self._grace)
        for process_id in alive:
            self._deadlines.pop(process_id, None)

    def adopt(self, store: SlotStore, now: float) -> None:
        """This server has become leader of a slot: the grace of processes that left before it learned of them begins
        now."""
        for process_id in {record.session for record in store.records()} - self._alive:
            self._deadlines.setdefault(process_id, now + self._grace)

    def due(self, now: float) -> list[str]:
        """Remove and return the processes whose time has come, sorted."""
        due = sorted(process_id for process_id, deadline in self._deadlines.items() if deadline <= now)
        for process_id in due:
            del self._deadlines[process_id]
        return due
