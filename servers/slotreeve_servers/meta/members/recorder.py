"""The flight recorder of a meta server: which server led when, and why that ended, in memory, for an operator who asks
later."""

from __future__ import annotations

from collections import deque

import msgspec
from slotreeve.clock import Timer
from slotreeve.ports import Election, Leadership
from slotreeve_protocol.meta_messages import History, LeaderChange

from slotreeve_servers.meta.effects import MetaOutbox

KEPT_CHANGES = 1_000
"""Older changes are forgotten. A thousand cover a day in which the leader changes every minute and a half."""
MARGIN_SAMPLE_SECONDS = 0.1


class LeadershipRecorder:
    """Remembers changes of leadership. Call :meth:`record` with each leadership that the election reports."""

    def __init__(self, outbox: MetaOutbox, node: str, election: Election) -> None:
        self._outbox, self._node, self._election = outbox, node, election
        self._changes: deque[LeaderChange] = deque(maxlen=KEPT_CHANGES)
        self._sampling: Timer | None = None

    def history(self) -> History:
        """What is remembered, oldest first."""
        return History(self._node, list(self._changes))

    def record(self, leadership: Leadership) -> None:
        """The leader, its term or the right to act has changed."""
        change = LeaderChange(self._outbox.wall_ms(), leadership.leader, leadership.term, leadership.cause)
        self._changes.append(change)
        if leadership.leading:
            self._sample_margin()

    def close(self) -> None:
        """The server stops: take no more samples."""
        if self._sampling is not None:
            self._sampling.cancel()
            self._sampling = None

    def _sample_margin(self) -> None:
        """Note how near the lease came to its end while this server led: the first sign of a slow disk or network."""
        self.close()
        leadership = self._election.leadership()
        if not leadership.leading:
            return
        known = self._changes[-1].least_margin_seconds
        margin = leadership.valid_until - self._outbox.now()
        if margin < float("inf"):  # a server that is a quorum by itself needs no lease
            least = margin if known is None else min(known, margin)
            self._changes[-1] = msgspec.structs.replace(self._changes[-1], least_margin_seconds=least)
        self._sampling = self._outbox.after(MARGIN_SAMPLE_SECONDS, self._sample_margin)
