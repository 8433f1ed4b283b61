"""The way of records from clients to slot leaders (original: ``DataNodeServiceImpl``).

Records wait per slot; what waits for one data server goes out as one message at the end of a turn of the event
loop, at most ``IN_FLIGHT`` unanswered: an idle server sends at once, a busy one batches by itself. Whatever is not
answered with Accept or Migrating is sent again, to whoever leads by then: storing twice changes nothing (I10).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slotreeve.clock import Clock
from slotreeve.errors import TransportError
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Connection, Message
from slotreeve_protocol.slot_messages import Access, Answers, SlotWrite, Write

from slotreeve_servers.session.clients import ConnectedClient
from slotreeve_servers.session.routes import Routes

log = logging.getLogger("slotreeve.writes")

IN_FLIGHT = 2
"""Messages to one data server that are not answered yet; one more may go out with records of modest clients."""
WEIGHT_PER_MESSAGE = 500
MODEST_RECORDS = 32
"""A client with fewer records on their way need not wait for one that replays a hundred thousand."""
RETRY_SECONDS = 0.05


@dataclass(eq=False, slots=True)
class _Delivery:
    """Somebody waits until these batches, so many, are stored."""

    batches: int
    done: Callable[[], None]

    def one_stored(self) -> None:
        self.batches -= 1
        if self.batches == 0:
            self.done()


@dataclass(eq=False, slots=True)
class _Batch:
    """What waits for one slot, and whom to tell."""

    records: list[Publisher] = field(default_factory=list)
    gone: list[Publisher] = field(default_factory=list)
    clients: list[ConnectedClient] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    weight: int = 0
    deliveries: list[_Delivery] = field(default_factory=list)

    def split(self) -> _Batch:
        """Cut off and return the records that go out first, up to a bounded weight."""
        first = _Batch()
        count = 0
        while first.weight < WEIGHT_PER_MESSAGE:
            first.weight += self.records[count].weight
            count += 1
        first.records, first.clients, first.sequences = (
            self.records[:count],
            self.clients[:count],
            self.sequences[:count],
        )
        del self.records[:count], self.clients[:count], self.sequences[:count]
        self.weight -= first.weight
        for delivery in self.deliveries:
            delivery.batches += 1
        first.deliveries = self.deliveries.copy()
        return first

    def extend(self, other: _Batch) -> None:
        self.records += other.records
        self.gone += other.gone
        self.clients += other.clients
        self.sequences += other.sequences
        self.weight += other.weight
        self.deliveries += other.deliveries


class Writes:
    """All records on their way. ``waiting`` counts those not yet acknowledged by a slot leader."""

    def __init__(self, routes: Routes, clock: Clock, timeout_seconds: float) -> None:
        self._routes, self._clock, self._timeout = routes, clock, timeout_seconds
        self._pending: dict[int, _Batch] = {}
        self._urgent: set[int] = set()
        self._in_flight: dict[Connection, int] = {}
        self._sent: dict[int, set[_Batch]] = {}
        self._refused: dict[int, tuple[Connection, int]] = {}
        self._to_acknowledge: list[ConnectedClient] = []
        self._scheduled = False
        self._retrying = False
        self._is_closed = False
        self.waiting = 0
        self.retries = 0

    def submit(self, slot: int, record: Publisher, client: ConnectedClient, sequence: int) -> None:
        """Bring ``record`` to the leader of ``slot``, then acknowledge ``sequence`` to ``client``."""
        batch = self._pending.get(slot)
        if batch is None:
            batch = self._pending[slot] = _Batch()
        batch.records.append(record)
        batch.clients.append(client)
        batch.sequences.append(sequence)
        batch.weight += record.weight
        if client.waiting < MODEST_RECORDS:
            self._urgent.add(slot)
        client.waiting += 1
        self.waiting += 1
        if not self._scheduled:
            self.flush_soon()

    def submit_gone(self, slot: int, tombstone: Publisher) -> None:
        """Tell the leader of ``slot`` that the client behind a registration left."""
        self._pending.setdefault(slot, _Batch()).gone.append(tombstone)
        self.waiting += 1
        if not self._scheduled:
            self.flush_soon()

    def flush_soon(self) -> None:
        """Send what can be sent when this turn of the event loop has ended."""
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self._flush)

    def deliver(self, slots: Iterable[int], done: Callable[[], None]) -> None:
        """Call ``done`` when all that waits or is on its way for these slots now is stored by their leaders."""
        batches = [batch for slot in slots for batch in self._sent.get(slot, ())]
        batches += [self._pending[slot] for slot in slots if slot in self._pending]
        if not batches:
            done()
            return
        delivery = _Delivery(len(batches), done)
        for batch in batches:
            batch.deliveries.append(delivery)

    def close(self) -> None:
        """The server has left: what still waits is not sent any more, its clients bring it elsewhere."""
        self._is_closed = True

    def closed(self, connection: Connection) -> None:
        """A link to a data server is down; its unanswered requests fail by themselves."""
        self._in_flight.pop(connection, None)

    def _flush(self) -> None:
        self._scheduled = False
        if self._is_closed:
            self._pending.clear()
            self._urgent.clear()
            return
        parts: dict[Connection, dict[int, _Batch]] = {}
        epochs: dict[int, int] = {}
        weights: dict[Connection, int] = {}
        urgent = self._urgent
        for slot in [*urgent, *(slot for slot in self._pending if slot not in urgent)]:
            leader = self._routes.leader_of(slot)
            if leader is None or self._refused.get(slot) == leader:
                continue
            connection, epochs[slot] = leader
            weight = weights.get(connection, 0)
            most = IN_FLIGHT + 1 if slot in urgent else IN_FLIGHT
            if self._in_flight.get(connection, 0) < most and weight < WEIGHT_PER_MESSAGE:
                batch = self._pending[slot]
                part = batch if batch.weight <= WEIGHT_PER_MESSAGE else batch.split()
                parts.setdefault(connection, {})[slot] = part
                weights[connection] = weight + part.weight + len(part.gone)
        for connection, batches in parts.items():
            self._send(connection, batches, epochs)

    def _send(self, connection: Connection, batches: dict[int, _Batch], epochs: dict[int, int]) -> None:
        message = Write([SlotWrite(slot, epochs[slot], b.records, b.gone, []) for slot, b in batches.items()])
        try:
            connection.request(
                message, lambda reply, _: self._answered(connection, batches, epochs, reply), self._timeout
            )
        except TransportError as error:
            log.warning("writes to %s not sent: %s", connection.peer.node, error)
            for slot, batch in batches.items():
                if self._pending[slot] is not batch:
                    self._put_back(slot, batch)
            self._retry_later()
            return
        self._in_flight[connection] = self._in_flight.get(connection, 0) + 1
        for slot, batch in batches.items():
            self._sent.setdefault(slot, set()).add(batch)
            rest = self._pending.pop(slot)
            if rest is not batch:
                self._pending[slot] = rest  # behind the other slots: each gets its turn
            else:
                self._urgent.discard(slot)

    def _answered(
        self, connection: Connection, batches: dict[int, _Batch], epochs: dict[int, int], reply: Message | None
    ) -> None:
        if connection in self._in_flight:
            self._in_flight[connection] -= 1
        if isinstance(reply, Answers):
            stored = {a.slot for a in reply.answers if a.access is Access.ACCEPT or a.access is Access.MIGRATING}
        else:
            stored = set()
        for slot, batch in batches.items():
            self._sent[slot].discard(batch)
            if slot in stored:
                self._acknowledge(batch)
            else:
                self._refused[slot] = (connection, epochs[slot])
                self._put_back(slot, batch)
        if self._pending:
            self.flush_soon()

    def _acknowledge(self, batch: _Batch) -> None:
        self.waiting -= len(batch.records) + len(batch.gone)
        for client, sequence in zip(batch.clients, batch.sequences, strict=True):
            if client.acknowledge(sequence):
                if not self._to_acknowledge:
                    self._clock.call_soon(self._flush_acknowledgements)
                self._to_acknowledge.append(client)
        for delivery in batch.deliveries:
            delivery.one_stored()

    def _flush_acknowledgements(self) -> None:
        clients, self._to_acknowledge = self._to_acknowledge, []
        for client in clients:
            client.flush()

    def _put_back(self, slot: int, batch: _Batch) -> None:
        self.retries += 1
        later = self._pending.pop(slot, None)
        if later is not None:
            batch.extend(later)
        self._pending[slot] = batch
        self._retry_later()

    def _retry_later(self) -> None:
        """What was refused waits for another leader, leader epoch or link, or, where none comes, for this."""
        if not self._retrying:
            self._retrying = True
            self._clock.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._retrying = False
        self._refused.clear()
        self.flush_soon()
