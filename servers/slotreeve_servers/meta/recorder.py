"""The flight recorder of a meta server: who led when and why it ended, in memory, for the operator who asks later."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping

import msgspec
from slotreeve.clock import Clock, Timer
from slotreeve.errors import SlotreeveError
from slotreeve.ports import Connection, Election, Leadership
from slotreeve_protocol.general_messages import Done, Failed
from slotreeve_protocol.meta_messages import GetHistory, History, LeaderChange, LeaderIs, Resign

from slotreeve_servers.node.dispatch import Method

log = logging.getLogger("slotreeve.meta.recorder")

KEPT_CHANGES = 1_000
"""Older ones are forgotten: a day of a leader that changes every minute and a half."""
MARGIN_SAMPLE_SECONDS = 0.1


class LeadershipRecorder:
    """Remembers changes of leadership, and answers ``GetHistory`` and ``Resign``.

    Tell :meth:`record` every leadership that the election reports; hand :attr:`methods` to the server's dispatcher.

    Attributes:
        methods: handlers of the messages that concern the recorder.
    """

    def __init__(self, node: str, election: Election, clock: Clock, leader_is: Callable[[], LeaderIs]) -> None:
        self._node, self._election, self._clock, self._leader_is = node, election, clock, leader_is
        self._changes: deque[LeaderChange] = deque(maxlen=KEPT_CHANGES)
        self._sampling: Timer | None = None
        self._resigning: set[asyncio.Task[None]] = set()
        self.methods: Mapping[type, Method] = {GetHistory: self._on_get_history, Resign: self._on_resign}

    @property
    def changes(self) -> list[LeaderChange]:
        """What is remembered, oldest first."""
        return list(self._changes)

    def record(self, leadership: Leadership) -> None:
        """The leader, its term or the right to act has changed."""
        change = LeaderChange(self._clock.wall_ms(), leadership.leader, leadership.term, leadership.cause)
        self._changes.append(change)
        if leadership.leading:
            self._sample_margin()

    def close(self) -> None:
        """The server stops: nothing is sampled any more."""
        if self._sampling is not None:
            self._sampling.cancel()
            self._sampling = None

    def _sample_margin(self) -> None:
        """How near the lease came to its end while this server led: the first sign of a slow disk or network."""
        self.close()
        leadership = self._election.leadership()
        if not leadership.leading:
            return
        known = self._changes[-1].least_margin_seconds
        margin = leadership.valid_until - self._clock.now()
        if margin < float("inf"):  # a server that is a quorum by itself needs no lease
            least = margin if known is None else min(known, margin)
            self._changes[-1] = msgspec.structs.replace(self._changes[-1], least_margin_seconds=least)
        self._sampling = self._clock.call_later(MARGIN_SAMPLE_SECONDS, self._sample_margin)

    # --- messages ----------------------------------------------------------------------------------------------------

    def _on_get_history(self, connection: Connection, message: GetHistory, request_id: int | None) -> None:
        if request_id is not None:
            connection.reply(request_id, History(self._node, self.changes))

    def _on_resign(self, connection: Connection, message: Resign, request_id: int | None) -> None:
        if request_id is None:
            return
        if not self._election.leadership().leading:
            connection.reply(request_id, self._leader_is())
            return
        log.warning("%s asks this leader to resign", connection.peer.node)
        task = asyncio.get_running_loop().create_task(self._resign(connection, request_id), name="resign")
        self._resigning.add(task)
        task.add_done_callback(self._resigning.discard)

    async def _resign(self, connection: Connection, request_id: int) -> None:
        try:
            await self._election.resign()
        except SlotreeveError as error:
            connection.reply(request_id, Failed(error.code, str(error)))
        else:
            connection.reply(request_id, Done())
