"""The last heartbeat of each data and session server: what it holds, and whether it stops. Pure."""

from __future__ import annotations

from typing import NamedTuple

from slotreeve.model.nodes import Role
from slotreeve.model.slots import SlotTable
from slotreeve_protocol.meta_messages import Heartbeat, Stopping, View

from slotreeve_servers.meta.arranger import Leaving
from slotreeve_servers.meta.known_copies import KnownCopies

UNBELIEVABLE = 1 << 53
"""No cluster commits so many views. A server that claims to have one is wrong, and must not use the numbers up."""


class Newest(NamedTuple):
    """The highest revision of a view and the highest epoch of a table that servers have, and the name of one of them.
    The two may come of different histories, and so from different servers."""

    name: str
    revision: int
    epoch: int


class LastHeartbeats:
    """Heartbeats by the name of the server.

    Attributes:
        changes: rises with each change of what the arranger may look at.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._last: dict[str, Heartbeat] = {}
        self._before: dict[str, set[int]] = {}
        self._known: set[str] = set()

    def take(self, heartbeat: Heartbeat) -> bool:
        """Keep a heartbeat; True if it differs from the one before it in what the arranger waits for."""
        before = self._last.get(heartbeat.node.name)
        self._last[heartbeat.node.name] = heartbeat
        if before is None or before.node.process_id != heartbeat.node.process_id:
            self._before.pop(heartbeat.node.name, None)
            self._known.discard(heartbeat.node.name)
        is_news = before is None or _reported(before) != _reported(heartbeat)
        self.changes += is_news
        return is_news

    def forget(self, name: str) -> None:
        """The server has left."""
        self.changes += 1
        self._last.pop(name, None)
        self._before.pop(name, None)
        self._known.discard(name)

    def clear(self) -> None:
        """Forget all of them, as a new leader does."""
        self.changes += 1
        self._last.clear()
        self._before.clear()
        self._known.clear()

    def table_changed(self, old: SlotTable, new: SlotTable) -> None:
        """A new table is committed. Until a server reports under it, remember which of its slots it held completely
        under the old one, or until a moment before."""
        self.changes += 1
        copies = self.copies(old)
        self._known = self.reported(old)
        self._before = {}
        for was, row in zip(old.slots, new.slots, strict=False):
            for name in row.followers:
                held = name == was.leader or name in was.followers
                if held and (copies.settled(name, row.id) or copies.recently_settled(name, row.id)):
                    self._before.setdefault(name, set()).add(row.id)

    @property
    def newest(self) -> Newest:
        """The highest numbers that any of the servers has. Numbers that no cluster reaches are not believed."""
        newest = Newest("", 0, 0)
        for name, heartbeat in self._last.items():
            revision, epoch = heartbeat.revision, heartbeat.table_epoch
            if max(revision, epoch) < UNBELIEVABLE and (revision > newest.revision or epoch > newest.epoch):
                newest = Newest(name, max(revision, newest.revision), max(epoch, newest.epoch))
        return newest

    def reported(self, table: SlotTable) -> set[str]:
        """The servers whose copies are known: they have reported under ``table``, or under an earlier table since
        this server leads."""
        return self._known | {name for name, h in self._last.items() if h.table_epoch == table.epoch}

    def copies(self, table: SlotTable) -> KnownCopies:
        """What the servers have reported under ``table``. For a server that has not reported under it yet, the report
        before counts: as of slots that it held a moment ago."""
        under = [(name, heartbeat) for name, heartbeat in self._last.items() if heartbeat.table_epoch == table.epoch]
        recent = {name: set(heartbeat.recent) for name, heartbeat in under}
        return KnownCopies({name: set(h.unsettled) for name, h in under}, {**self._before, **recent})

    def leaving(self, banned: frozenset[str]) -> Leaving:
        """The servers on their way out: those that stop, and those that the operator banned."""
        for_good = {name for name, h in self._last.items() if h.stopping is Stopping.FOR_GOOD}
        for_a_restart = {name for name, h in self._last.items() if h.stopping is Stopping.FOR_A_RESTART}
        return Leaving(frozenset(for_good | banned), frozenset(for_a_restart))

    def last(self, name: str) -> Heartbeat | None:
        """The last heartbeat of a server; None if it has sent none since this server leads."""
        return self._last.get(name)

    def may_leave(self, heartbeat: Heartbeat, view: View, banned: frozenset[str], is_protected: bool) -> bool:
        """Whether the sender stops and has handed over everything, or nothing that it holds can be handed over: no
        server is left to take it, or the table is protected and stays as it is."""
        name = heartbeat.node.name
        if heartbeat.stopping is Stopping.NO:
            return False
        if heartbeat.node.role is not Role.DATA or is_protected:
            return True
        if not any(node.name not in self.leaving(banned).for_good for node in view.data):
            return True
        leads = any(slot.leader == name for slot in view.table.slots)
        follows = any(name in slot.followers for slot in view.table.slots)
        return not leads and (heartbeat.stopping is Stopping.FOR_A_RESTART or not follows)


def _reported(heartbeat: Heartbeat) -> tuple[int, list[int], Stopping, list[int]]:
    return heartbeat.table_epoch, heartbeat.unsettled, heartbeat.stopping, heartbeat.recent
