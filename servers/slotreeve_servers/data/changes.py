"""Telling sessions what changed: inline, once a turn of the event loop, encoded once for all who want the same.

Departure from the original, whose data servers announce ids every 500 ms and are asked for the data afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from slotreeve.clock import Clock
from slotreeve.errors import ConnectionLost, TransportError
from slotreeve.ports import Connection
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.slot_messages import Changed, DatumChange, Known

from slotreeve_servers.data.slots import HeldSlot, Tracked

log = logging.getLogger("slotreeve.changes")

WEIGHT_PER_MESSAGE = 2_000


class Changes:
    """Collects what to tell, and tells it when the current turn of the event loop ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._dirty: dict[str, tuple[HeldSlot, Tracked]] = {}
        self._announcements: dict[Connection, list[DatumChange]] = {}
        self._scheduled = False
        self.sent = 0

    def changed(self, slot: HeldSlot, services: Mapping[str, Tracked]) -> None:
        """These services of ``slot`` have pending changes."""
        for data_info_id, service in services.items():
            self._dirty[data_info_id] = (slot, service)
        self._schedule()

    def announce(self, slot: HeldSlot, data_info_id: str, connection: Connection, known: Known) -> None:
        """Tell one session the present state, briefly where it holds the same content already."""
        service = slot.tracked[data_info_id]
        if known.version != 0 and known.digest == service.digest:
            if known.version == service.version:
                return
            change = DatumChange(data_info_id, known.version, service.version, service.digest, [], [])
        else:
            records = list(slot.store.services.get(data_info_id, {}).values())
            change = DatumChange(data_info_id, 0, service.version, service.digest, records, [])
        self._announcements.setdefault(connection, []).append(change)
        self._schedule()

    def forget(self, connection: Connection) -> None:
        """The connection closed."""
        self._announcements.pop(connection, None)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        announcements, self._announcements = self._announcements, {}
        for connection, changes in announcements.items():
            self._send((connection,), changes)
        dirty, self._dirty = self._dirty, {}
        audiences: dict[tuple[Connection, ...], list[DatumChange]] = {}
        for data_info_id, (slot, service) in dirty.items():
            if not slot.serving:
                continue
            changed = [record for record in service.pending.values() if record is not None]
            removed = [register_id for register_id, record in service.pending.items() if record is None]
            change = DatumChange(data_info_id, service.told, service.version, service.digest, changed, removed)
            service.told = service.version
            service.pending = {}
            audience = tuple([connection for connection, known in service.sessions.items() if known is None])
            if audience:
                audiences.setdefault(audience, []).append(change)
        for audience, changes in audiences.items():
            self._send(audience, changes)

    def _send(self, audience: tuple[Connection, ...], changes: list[DatumChange]) -> None:
        for part in _parts(changes):
            frame = encode_message(Changed(part))
            for connection in audience:
                try:
                    connection.send_encoded(frame)
                    self.sent += 1
                except ConnectionLost:
                    pass  # its closed event is on its way
                except TransportError as error:
                    log.warning("%s does not keep up: %s", connection.peer.node, error)
                    connection.close("it does not read its change events; it may come back and ask anew")


def _parts(changes: list[DatumChange]) -> Iterable[list[DatumChange]]:
    """Cut into messages of a bounded weight (one service is never cut)."""
    part: list[DatumChange] = []
    weight = 0
    for change in changes:
        more = 1 + sum(record.weight for record in change.changed)
        if part and weight + more > WEIGHT_PER_MESSAGE:
            yield part
            part, weight = [], 0
        part.append(change)
        weight += more
    yield part
