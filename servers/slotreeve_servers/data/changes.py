"""Announcing changes to session servers: records inline, once a turn of the event loop, encoded once for all session
servers that get the same.

Departure from the original, whose data servers announce ids every 500 ms and are asked for the data afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.slot_messages import Changed, DatumChange, Known

from slotreeve_servers.data.slots import HeldSlot, TrackedService
from slotreeve_servers.node.outbox import Outbox, Peer, TurnEnd

WEIGHT_PER_MESSAGE = 2_000


class Changes:
    """Collects the changes of a turn, and sends them when it ends.

    Attributes:
        sent: messages sent since the start.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._dirty: dict[str, tuple[HeldSlot, TrackedService]] = {}
        self._snapshots: dict[Peer, list[DatumChange]] = {}
        self._flush = TurnEnd(outbox, self._send_all)
        self.sent = 0

    def changed(self, slot: HeldSlot, services: Mapping[str, TrackedService]) -> None:
        """These services of ``slot`` have pending changes."""
        for data_info_id, service in services.items():
            self._dirty[data_info_id] = (slot, service)
        self._flush.soon()

    def announce(self, slot: HeldSlot, data_info_id: str, peer: Peer, known: Known) -> None:
        """Send one session server the present state; only its version where the session server has the same content."""
        service = slot.tracked[data_info_id]
        if known.version != 0 and known.digest == service.digest:
            if known.version == service.version:
                return
            change = DatumChange(data_info_id, known.version, service.version, service.digest, [], [])
        else:
            records = list(slot.store.services.get(data_info_id, {}).values())
            change = DatumChange(data_info_id, 0, service.version, service.digest, records, [])
        self._snapshots.setdefault(peer, []).append(change)
        self._flush.soon()

    def forget(self, peer: Peer) -> None:
        """The connection to a session server has ended."""
        self._snapshots.pop(peer, None)

    def _send_all(self) -> None:
        snapshots, self._snapshots = self._snapshots, {}
        for peer, changes in snapshots.items():
            self._send((peer,), changes)
        dirty, self._dirty = self._dirty, {}
        audiences: dict[tuple[Peer, ...], list[DatumChange]] = {}
        for data_info_id, (slot, service) in dirty.items():
            if not slot.serving:
                continue
            changed = [record for record in service.pending.values() if record is not None]
            removed = [register_id for register_id, record in service.pending.items() if record is None]
            change = DatumChange(data_info_id, service.announced, service.version, service.digest, changed, removed)
            service.announced = service.version
            service.pending = {}
            audience = tuple([peer for peer, known in service.sessions.items() if known is None])
            if audience:
                audiences.setdefault(audience, []).append(change)
        for audience, changes in audiences.items():
            self._send(audience, changes)

    def _send(self, audience: tuple[Peer, ...], changes: list[DatumChange]) -> None:
        for part in _parts(changes):
            frame = encode_message(Changed(part))
            for peer in audience:
                self.sent += self._outbox.send_encoded(peer, frame, "Changed")


def _parts(changes: list[DatumChange]) -> Iterable[list[DatumChange]]:
    """Cut into messages of a bounded weight; one service is never cut."""
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
