"""Announcing changes to session servers: records inline, once a turn of the event loop, encoded once for all session
servers that get the same.

Departure from the original, whose data servers announce ids every 500 ms and are asked for the data afterwards.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from slotreeve.errors import RequestTimeout
from slotreeve.ports import Message
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.slot_messages import Changed, Confirm, DatumChange, Known

from slotreeve_servers.data.announcing.carried import Carried
from slotreeve_servers.data.slots.slots import HeldSlot, TrackedService
from slotreeve_servers.node.deltas import delta_parts, messages_of
from slotreeve_servers.node.outbox import Outbox, Peer, TurnEnd
from slotreeve_servers.node.timings import Timing

PART_SECONDS = 5.0
"""A session server that has not answered a part for so long gets the next one nevertheless."""
AGAIN_SECONDS = 0.05
"""A part that a session server did not take, because its queue is full, is sent again after this time."""

WHOLE_BYTES = 8 * 1024 * 1024
"""So many bytes of whole services may be on their way to one session server, without the later parts of large ones."""
MOST_TRANSFERS = 16
"""So many large services, of each of which one part may be on its way."""

_CHANGE_BYTES = 40


@dataclass(eq=False, slots=True)
class ServiceTransfer:
    """A large service on its way to one session server: the part that is sent now, and the rest."""

    slot: HeldSlot
    part: DatumChange
    rest: Iterator[tuple[DatumChange, int]]


@dataclass(eq=False, slots=True)
class Backlog:
    """The whole services that one session server is sent.

    Attributes:
        sent: bytes of them since it last proved that it had read all. ``is_full``: it must prove that first.
        waiting: the services to be announced to it, with what the session server has of each, and when the oldest
            change that it lacks was born (:class:`slotreeve_servers.data.slots.slots.TrackedService`).
        postponed: those among them that it needs whole, and for which there was no room.
    """

    sent: int = 0
    is_full: bool = False
    waiting: OrderedDict[str, tuple[HeldSlot, Known, float]] = field(default_factory=OrderedDict)
    postponed: OrderedDict[str, tuple[HeldSlot, Known, float]] = field(default_factory=OrderedDict)


class Changes:
    """Collects the changes of a turn, and sends them when it ends.

    A session server that needs very many services whole gets :data:`WHOLE_BYTES` of them. It gets the others once it
    has answered a request that was sent behind these, and no changes of them before: otherwise they would fill the
    queue, and the connection would end.

    A whole service of many bytes is sent as requests, each with one part, and each after the reply to the one before:
    the queue of the connection stays free for other services. Its changes meanwhile are sent at once; they go on from
    the version of the parts (:class:`slotreeve_protocol.datum_copy.GatheredParts`).

    Attributes:
        sent: messages sent since the start.
        waits: from the first change of a turn until the changes of that turn are sent. ``carried``: see
            :class:`slotreeve_servers.data.announcing.carried.Carried`.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._dirty: dict[str, tuple[HeldSlot, TrackedService]] = {}
        self._snapshots: dict[Peer, list[DatumChange]] = {}
        self._transfers: dict[Peer, dict[str, ServiceTransfer]] = {}
        self._backlogs: dict[Peer, Backlog] = {}
        self._flush = TurnEnd(outbox, self._send_all)
        self._dirty_since = 0.0
        self.waits = Timing()
        self.carried = Carried(outbox)
        self.sent = 0

    def changed(self, slot: HeldSlot, services: Mapping[str, TrackedService], waited_us: int = 0) -> None:
        """These services of ``slot`` have pending changes; ``waited_us``: see
        :class:`slotreeve_protocol.slot_messages.SlotWrite`."""
        now = self._outbox.now()
        if not self._dirty:
            self._dirty_since = now
        born = now - waited_us / 1_000_000
        for data_info_id, service in services.items():
            if born < service.born:
                service.born = born
            self._dirty[data_info_id] = (slot, service)
        self._flush.soon()

    def announce(self, slot: HeldSlot, data_info_id: str, peer: Peer, known: Known) -> None:
        """Send one session server the state at the end of this turn, and its changes from then on; only the version
        where the session server has the same content, nothing where the whole service is already on its way, and later
        where too many are, or too many bytes that it has not proved to have read."""
        backlog = self._backlogs.get(peer)
        if backlog is None:
            backlog = self._backlogs[peer] = Backlog()
        if not backlog.waiting:
            self._outbox.pace(self._send_waiting, peer)
        backlog.waiting[data_info_id] = (slot, known, slot.born_of(slot.tracked[data_info_id]))

    def _announce(self, slot: HeldSlot, data_info_id: str, peer: Peer, known: Known, born: float) -> None:
        backlog, service = self._backlogs[peer], slot.hashed(data_info_id)
        waited = waited_us(min(born, slot.born_of(service)), self._outbox.now())
        if known.version != 0 and known.digest == service.digest:
            service.sessions[peer] = None
            if known.version != service.version:
                versions = known.version, service.version
                same = DatumChange(data_info_id, *versions, service.digest, [], [], waited_us=waited)
                self._snapshots.setdefault(peer, []).append(same)
                self._flush.soon()
            return
        if not self._has_room(peer, backlog):
            backlog.postponed[data_info_id] = (slot, known, born)
            return
        service.sessions[peer] = None
        backlog.sent += self._send_whole(slot, data_info_id, peer, waited)
        if backlog.sent >= WHOLE_BYTES:
            backlog.is_full = True
            self._outbox.at_turns_end(partial(self._ask_for_proof, peer))

    def _send_whole(self, slot: HeldSlot, data_info_id: str, peer: Peer, waited: int) -> int:
        """Send a whole service; returns a bound of the bytes that go out now."""
        transfers = self._transfers.setdefault(peer, {})
        under_way = transfers.get(data_info_id)
        if under_way is not None and under_way.slot is slot:
            return 0
        records = list(slot.store.services.get(data_info_id, {}).values())
        service = slot.tracked[data_info_id]
        whole = DatumChange(data_info_id, 0, service.version, service.digest, records, [], waited_us=waited)
        parts = _parts_of(whole, self._outbox.part_bytes)
        first, size = next(parts)
        if first.more:
            transfer = transfers[data_info_id] = ServiceTransfer(slot, first, parts)
            self._send_part(peer, transfer)
        else:
            self._snapshots.setdefault(peer, []).append(first)
            self._flush.soon()
        return size

    def _ask_for_proof(self, peer: Peer) -> None:
        """Ask the session server for a reply, which proves that it has read the services sent before."""
        backlog = self._backlogs.get(peer)
        if backlog is None:
            return

        def answered(reply: Message | None, error: Exception | None) -> None:
            if reply is None or self._backlogs.get(peer) is not backlog:
                return  # the connection has ended
            backlog.sent, backlog.is_full = 0, False
            self._outbox.pace(self._send_waiting, peer)

        if not self._outbox.ask(peer, Confirm([]), answered, math.inf):
            self._outbox.after(AGAIN_SECONDS, partial(self._ask_for_proof, peer))

    def _has_room(self, peer: Peer, backlog: Backlog) -> bool:
        return not backlog.is_full and len(self._transfers.get(peer, ())) < MOST_TRANSFERS

    def _send_waiting(self, peer: Peer) -> Iterator[None]:
        """Send what waits, and as much of what was postponed as there is room for."""
        while backlog := self._backlogs.get(peer):
            among = backlog.postponed if backlog.postponed and self._has_room(peer, backlog) else backlog.waiting
            if not among:
                return
            data_info_id, (slot, known, born) = among.popitem(last=False)
            service = slot.tracked.get(data_info_id)
            if service is not None and service.sessions.get(peer) is not None:
                self._announce(slot, data_info_id, peer, known, born)
                yield

    def forget(self, peer: Peer) -> None:
        """The connection to a session server has ended."""
        self._snapshots.pop(peer, None)
        self._transfers.pop(peer, None)
        self._backlogs.pop(peer, None)
        self.carried.forget(peer)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send_all(self) -> None:
        snapshots, self._snapshots = self._snapshots, {}
        for peer, changes in snapshots.items():
            self._send((peer,), changes)
        dirty, self._dirty = self._dirty, {}
        now = self._outbox.now()
        if dirty:
            self.waits.took(now - self._dirty_since)
        audiences: dict[tuple[Peer, ...], list[DatumChange]] = {}
        for data_info_id, (slot, service) in dirty.items():
            if not slot.serving:
                continue
            changed = [record for record in service.pending.values() if record is not None]
            removed = [register_id for register_id, record in service.pending.items() if record is None]
            waited = waited_us(service.born, now)
            digest, version = service.digest, service.version
            change = DatumChange(data_info_id, service.announced, version, digest, changed, removed, False, waited)
            service.announced = version
            service.pending = {}
            service.born = math.inf
            audience = tuple([peer for peer, known in service.sessions.items() if known is None])
            if audience:
                audiences.setdefault(audience, []).append(change)
        for audience, changes in audiences.items():
            self._send(audience, changes)
            for peer in audience:
                self.carried.sent(peer)

    def _send(self, audience: tuple[Peer, ...], changes: list[DatumChange]) -> None:
        limit = self._outbox.part_bytes
        for part in messages_of((part for change in changes for part in _parts_of(change, limit)), limit):
            frame = encode_message(Changed(part))
            for peer in audience:
                self.sent += self._outbox.send_encoded(peer, frame, "Changed")

    def _send_part(self, peer: Peer, transfer: ServiceTransfer) -> None:
        """Send the next part of a service that is still on its way; the one after it follows the reply."""
        data_info_id = transfer.part.data_info_id
        if self._transfers.get(peer, {}).get(data_info_id) is not transfer:
            return

        def answered(reply: Message | None, error: Exception | None) -> None:
            if reply is None and not isinstance(error, RequestTimeout):
                return  # the connection has ended
            if transfer.part.more:
                transfer.part, _ = next(transfer.rest)
                self._send_part(peer, transfer)
            elif self._transfers.get(peer, {}).get(data_info_id) is transfer:
                del self._transfers[peer][data_info_id]
                self._outbox.pace(self._send_waiting, peer)

        if self._outbox.ask(peer, Changed([transfer.part]), answered, PART_SECONDS):
            self.sent += 1
        else:
            self._outbox.after(AGAIN_SECONDS, partial(self._send_part, peer, transfer))


def waited_us(born: float, now: float) -> int:
    """How long a change has taken that was born then, in microseconds; 0 if there is none."""
    return round(1_000_000 * (now - born)) if born < now else 0


def _parts_of(change: DatumChange, limit: int) -> Iterator[tuple[DatumChange, int]]:
    """The parts of a change, each with a bound of its size in bytes."""
    own = _CHANGE_BYTES + len(change.data_info_id)
    for part in delta_parts(change.changed, change.removed, limit):
        if part.is_whole:
            yield change, own + part.size
        else:
            head = change.data_info_id, change.from_version, change.version, change.digest
            yield DatumChange(*head, part.changed, part.removed, part.more, change.waited_us), own + part.size
