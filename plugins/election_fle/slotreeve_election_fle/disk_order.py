"""In which order effects are carried out while the disk works: what depends on it waits, heartbeats do not. Pure.

docs/fle.md, 8.4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from slotreeve_machines.driver import EffectQueue

from slotreeve_election_fle.effects import (
    AppendToLog,
    BeginTakingOver,
    Effect,
    ReplaceLog,
    SaveEpochs,
    SaveIdentity,
    SaveSnapshot,
    Send,
)
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.messages import AtWork, Hears, PeerPing, PeerPong


class DiskOrder(EffectQueue[Effect]):
    """Every effect after a write to the disk waits for it, but for heartbeats: nothing in them rests on the disk.

    Appends that wait become one, with one sync ("group commit"): an entry may be durable earlier than asked, never
    later.
    """

    def __init__(self) -> None:
        super().__init__()
        self._heartbeats: deque[Effect] = deque()

    def add(self, effects: Sequence[Effect]) -> None:
        """See :class:`slotreeve_machines.driver.EffectQueue`."""
        for effect in effects:
            (self._heartbeats if _is_heartbeat(effect) else self._waiting).append(effect)

    def take(self, is_pending: bool) -> Effect | None:
        """See :class:`slotreeve_machines.driver.EffectQueue`."""
        if self._heartbeats:
            return self._heartbeats.popleft()
        effect = super().take(is_pending)
        return self._with_later_appends(effect) if isinstance(effect, AppendToLog) else effect

    def clear(self) -> None:
        """See :class:`slotreeve_machines.driver.EffectQueue`."""
        super().clear()
        self._heartbeats.clear()

    def _with_later_appends(self, first: AppendToLog) -> AppendToLog:
        """``first`` with all appends that wait before any other write."""
        entries: list[Entry] = list(first.entries)
        others: deque[Effect] = deque()
        while self._waiting and not isinstance(self._waiting[0], OTHER_WRITES):
            effect = self._waiting.popleft()
            if isinstance(effect, AppendToLog):
                entries.extend(effect.entries)
            else:
                others.append(effect)
        self._waiting.extendleft(reversed(others))
        return AppendToLog(entries)


OTHER_WRITES = (BeginTakingOver, ReplaceLog, SaveEpochs, SaveIdentity, SaveSnapshot)


def _is_heartbeat(effect: Effect) -> bool:
    """Whether it says only that this server runs and hears: nothing in it rests on the disk."""
    return isinstance(effect, Send) and isinstance(effect.message, PeerPing | PeerPong | AtWork | Hears)
