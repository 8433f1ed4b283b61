"""Checks of the copies of slots by what is committed (I16): who joins, who leads, who may go. It knows only views."""

from __future__ import annotations

from slotreeve.model.slots import Slot
from slotreeve_protocol.meta_messages import View
from slotreeve_servers.node.membership import NO_VIEW

from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.verdict import RunVerdict


class CopiesWatch:
    """Who is in sync with each slot, view by view.

    Args:
        replicas: copies of a slot that the cluster should have.
    """

    def __init__(self, replicas: int, servers: ServersWatch, verdict: RunVerdict) -> None:
        self._replicas, self._servers, self._verdict = replicas, servers, verdict
        self._view = NO_VIEW

    def look(self) -> set[int]:
        """Check the views that were committed since the last look. Returns the slots of which no server in sync lived
        any more: what was nowhere else is lost."""
        lost: set[int] = set()
        if self._view.revision + 1 not in self._servers.views and self._servers.newest > self._view.revision:
            unseen = self._view.revision + 1
            self._verdict.violate("I16", f"nobody saw view {unseen}, so who is in sync cannot be checked from there on")
        while (view := self._servers.views.get(self._view.revision + 1)) is not None:
            before, self._view = self._view, view
            processes = {node.name: node.process_id for node in before.data}
            members = {node.name for node in view.data if processes.get(node.name) == node.process_id}
            leased = members.difference(view.acting, view.away)
            for old, new in zip(before.table.slots, view.table.slots, strict=False):
                acts_alone = old.leader in members.intersection(view.acting) and leased.isdisjoint(old.in_sync)
                living = leased | {str(old.leader)} if acts_alone else leased
                if (old is not new and old != new) or not living.issuperset(old.in_sync):
                    self._check(old, new, living, members, view)
                    if old.leader_epoch and living.isdisjoint(old.in_sync):
                        lost.add(old.id)
        return lost

    def in_sync(self, number: int) -> list[tuple[str, str]]:
        """The servers in sync with a slot by the newest view: names and process ids."""
        if number >= len(self._view.table.slots):
            return []
        processes = {node.name: node.process_id for node in self._view.data}
        return [(name, processes[name]) for name in self._view.table.slots[number].in_sync if name in processes]

    def _check(self, old: Slot, new: Slot, living: set[str], members: set[str], view: View) -> None:
        former = [name for name in old.in_sync if name in living]
        if new.leader != old.leader and former and new.leader not in former:
            joined = new.leader in old.learners and new.leader in living
            if not joined or old.leader not in living:
                self._violate(view, new, f"is led by {new.leader}, which was not in sync; {', '.join(former)} were")
        for name in new.followers:
            stays = name in old.in_sync and name in members  # as long as nobody with a lease takes its place
            if not stays and not (name in old.learners and name in living):
                self._violate(view, new, f"has the follower {name}, which did not learn")
        gone = [name for name in former if name not in new.holders]
        wanted = min(self._replicas, len({node.name for node in view.live_data} - self._servers.leaving))
        if gone and len(living.intersection(new.in_sync)) < wanted:
            self._violate(view, new, f"is dropped by {', '.join(gone)}; in sync are {', '.join(new.in_sync)}")

    def _violate(self, view: View, slot: Slot, what: str) -> None:
        self._verdict.violate("I16", f"view {view.revision}: slot {slot.id} {what}")
