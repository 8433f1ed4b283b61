"""Session servers are told which records of lost clients are over, so that they drop their further copies."""

from __future__ import annotations

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.slot_messages import Changed

from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.node.outbox import Outbox, TurnEnd

TOLD_AT_ONCE = 500
"""Registrations in one message: a session server drops them in one step."""


class OverRecords:
    """What is over, by session process, until the turn ends."""

    def __init__(self, outbox: Outbox, sessions: SessionServers) -> None:
        self._outbox, self._sessions = outbox, sessions
        self._to_tell: dict[str, list[Publisher]] = {}
        self._tell = TurnEnd(outbox, self._send)

    def add(self, process_id: str, record: Publisher) -> None:
        """This record has ended, or a newer one is stored."""
        self._to_tell.setdefault(process_id, []).append(record.tombstone())
        self._tell.soon()

    def _send(self) -> None:
        """Send it. A session process that is not connected reports again over its next connection."""
        told, self._to_tell = self._to_tell, {}
        for process_id, tombstones in told.items():
            if (peer := self._sessions.newest(process_id)) is not None:
                for start in range(0, len(tombstones), TOLD_AT_ONCE):
                    self._outbox.send(peer, Changed([], tombstones[start : start + TOLD_AT_ONCE]))
