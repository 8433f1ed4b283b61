"""What the clients of one session server published: the source of truth, and its way to the slot leaders."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from slotreeve.errors import AccessError, Backpressure, Forbidden, LimitReached, ModelError, SlotreeveError
from slotreeve.model.data_info import check_data_info_id
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES, MAX_REGISTER_ID_LENGTH, MAX_ZONE_LENGTH, Publisher
from slotreeve.model.rights import Right
from slotreeve.model.text import SHOWN, check_text
from slotreeve.ports import SlotFunction
from slotreeve_events.log import EventLog
from slotreeve_protocol.client_messages import Publish, Published, Rejected

from slotreeve_servers.node.outbox import Outbox
from slotreeve_servers.node.records import SlotStore
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.limits import ClientLimits
from slotreeve_servers.session.records.further_copies import FurtherCopies
from slotreeve_servers.session.records.writes import Writes

HEAVIEST = 1 + MAX_PAYLOAD_BYTES // 2_048
TOMBSTONE_SECONDS = 180.0
"""Tombstones, and further copies of which no leader says that they are over, are forgotten after this time."""
KNOWN_SLOTS, KNOWN_LETTERS = 200_000, 20_000_000


class Departure(Enum):
    """Why a client's records go."""

    MOVED = auto()
    """The slot leaders have them from another session server."""
    SAID = auto()
    """The client said that it leaves, or the operator switched it off."""
    LOST = auto()
    """It did not come back in time, or is silent."""


class Registrations:
    """All records of this session process's clients, by slot; each change goes on to the slot's leader.

    Args:
        process_id: of this session process; each record names it.
        limits: what each client may have. From ``max_pending_writes`` records on their way to slot leaders on publishes
            are refused. One client may have as many as there is room left (dynamic thresholds: Choudhury and Hahne,
            1998): whoever fills a half leaves the other half to others.
        events: the event log, where one is written.

    Attributes:
        stores: records and tombstones by slot; change them only by the methods.
        further_copies: the records of lost clients, which are in the stores, too.
        published: records that clients have sent, repetitions and ends included.
    """

    def __init__(
        self,
        outbox: Outbox,
        process_id: str,
        slot_function: SlotFunction,
        writes: Writes,
        limits: ClientLimits,
        events: EventLog | None = None,
    ) -> None:
        self._outbox, self._process_id, self._writes = outbox, process_id, writes
        self._slot_of = slot_function.slot_of
        self.limits, self._events = limits, events
        self.stores: dict[int, SlotStore] = {}
        self.further_copies = FurtherCopies(outbox, slot_function.slot_of, self.stores, writes)
        self.published = 0
        self._known_slots: dict[str, int] = {}
        self._known_letters = 0
        # By client id: the connections that have ended, for whose records this server vouches for a while.
        self._former: dict[str, dict[ConnectedClient, None]] = {}
        self._leaving: deque[tuple[Publisher, Departure]] = deque()

    def publish(self, client: ConnectedClient, message: Publish) -> None:
        """Take a client's records. Each is acknowledged once its slot's leader has it, or rejected with the reason."""
        self.published += len(message.records)
        if client.is_off:
            self._outbox.send(client.peer, Published([message.sequence + i for i in range(len(message.records))]))
            return
        now = self._outbox.now()
        submit, slots, stores = self._writes.submit, self._known_slots, self.stores
        permit, own, most_weight, process_id = client.permit, client.own, self.limits.most_weight, self._process_id
        many = len(message.records)
        near_a_limit = self.limits.is_near_most(client, many)
        pending = self._writes.waiting_weight + client.waiting_weight
        most_pending = self.limits.rules.max_pending_writes
        sequence = message.sequence - 1
        for record in message.records:
            sequence += 1
            slot, weight = slots.get(record.data_info_id), record.weight
            former = client.records.get(record.register_id)
            pending += 2 * weight
            if (
                near_a_limit
                or pending >= most_pending
                or slot is None
                or record.session != process_id
                or weight > HEAVIEST
                or client.weight + weight > most_weight
                or len(record.register_id) > MAX_REGISTER_ID_LENGTH
                or len(record.zone) > MAX_ZONE_LENGTH
                or not record.register_id.startswith(own)
                or (permit is not None and not permit.allows(Right.REGISTER, record.data_info_id))
                or (record.data is None if former is None else former.data_info_id != record.data_info_id)
            ):
                refusal = self._refusal(client, record, former, weight)
                if refusal is not None:
                    if isinstance(refusal, Forbidden):
                        self._outbox.denied(client.peer, str(refusal))
                    self._outbox.send(client.peer, Rejected(sequence, refusal.code, str(refusal)))
                    continue
                slot = slots[record.data_info_id]
            if stores[slot].put(record, now):
                if self._events is not None:
                    self._events.registration(record)
                if record.data is None:
                    client.records.pop(record.register_id, None)
                else:
                    client.records[record.register_id] = record
                    client.weight += weight
                if former is not None:
                    client.weight -= former.weight
            submit(slot, record, weight, client, sequence)

    def _refusal(
        self, client: ConnectedClient, record: Publisher, former: Publisher | None, weight: int
    ) -> SlotreeveError | None:
        """Why a record is not taken; None where it is good after all. Called where it is not plainly good."""
        if self._writes.waiting_weight + client.waiting_weight >= self.limits.rules.max_pending_writes:
            waiting, own = self._writes.waiting, client.waiting
            return Backpressure(f"{waiting} records are on their way to data servers, {own} of this client; send later")
        if weight > HEAVIEST:
            return ModelError(f"the record publishes more than {MAX_PAYLOAD_BYTES} bytes")
        if record.session != self._process_id:
            return ModelError(f"the record names session process {record.session!r}; this is {self._process_id!r}")
        if former is not None and former.data_info_id != record.data_info_id:
            known = former.data_info_id
            return ModelError(f"the register id {record.register_id[:SHOWN]!r} is that of a registration in {known!r}")
        if not record.register_id.startswith(client.own):
            return Forbidden(f"the register id {record.register_id[:SHOWN]!r} is not one of {client.peer.node!r}")
        try:
            check_text("the register id", record.register_id, MAX_REGISTER_ID_LENGTH)
            check_text("the zone", record.zone, MAX_ZONE_LENGTH)
            if client.permit is not None:
                client.permit.check(Right.REGISTER, record.data_info_id)
            if record.data is not None:
                self.limits.check_registration(client, former, weight)
            elif former is None:  # what ends nothing here is remembered for a while
                self.limits.check_request(client, self._outbox.attended())
            self.slot(record.data_info_id)
        except LimitReached as error:
            # An end that is refused for good would leave the client with a registration that it has given up.
            return error if record.data is not None else Backpressure(f"{error}; send later")
        except (ModelError, AccessError) as error:
            return error
        return None

    def slot(self, data_info_id: str) -> int:
        """The slot of a service, remembered.

        Raises:
            ModelError: this cannot be a data info id.
        """
        slot = self._known_slots.get(data_info_id)
        if slot is None:
            check_data_info_id(data_info_id)
            self._known_letters += len(data_info_id)
            if len(self._known_slots) >= KNOWN_SLOTS or self._known_letters > KNOWN_LETTERS:
                self._known_slots.clear()
                self._known_letters = len(data_info_id)
            slot = self._known_slots[data_info_id] = self._slot_of(data_info_id)
            if slot not in self.stores:
                self.stores[slot] = SlotStore(self._outbox.part_bytes)
        return slot

    def said_goodbye(self, client: ConnectedClient) -> None:
        """The client withdrew, or the operator switched it off: remove its records."""
        self._leave(client, Departure.SAID)

    def moved(self, client: ConnectedClient) -> None:
        """The slot leaders have everything of this client from another session server: forget it here."""
        self._leave(client, Departure.MOVED)

    def lost(self, client: ConnectedClient) -> None:
        """The client did not come back in time, or is silent: report its records to the slot leaders, which decide when
        they end (docs/endings.md). They stay here until then: all copies at data servers may die meanwhile."""
        self._former.get(client.peer.node, {}).pop(client, None)
        if not self._former.get(client.peer.node):
            self._former.pop(client.peer.node, None)
        self._leave(client, Departure.LOST)

    def linger(self, client: ConnectedClient) -> None:
        """The client's connection has ended; its records stay for a while."""
        self._former.setdefault(client.peer.node, {})[client] = None

    def sent_again(self, client: ConnectedClient, incarnation: int) -> None:
        """The client has sent again, as this incarnation, what it still has: what is left of its former connections has
        ended. So has what it sent over this one before it left for another server, which died before it was there."""
        for former in list(self._former.get(client.peer.node, ())):
            if former.since <= client.since:
                self.lost(former)
        ended = [record for record in client.records.values() if record.incarnation < incarnation]
        for record in ended:
            del client.records[record.register_id]
            client.weight -= record.weight
        self._let_go(ended, Departure.LOST)

    def _leave(self, client: ConnectedClient, how: Departure) -> None:
        self._let_go(client.records.values(), how)
        client.records, client.weight = {}, 0

    def _let_go(self, records: Iterable[Publisher], how: Departure) -> None:
        """One client may have a hundred thousand records, and others must not wait."""
        self._leaving.extend((record, how) for record in records)
        if self._leaving:
            self._outbox.pace(self._drop)

    def _drop(self) -> Iterator[None]:
        while self._leaving:
            record, how = self._leaving.popleft()
            slot = self._slot_of(record.data_info_id)
            store = self.stores[slot]
            # A record that was replayed over a newer connection is newer by its incarnation: it stays.
            if store.has(record):
                if how is Departure.LOST:
                    self.further_copies.keep(slot, record)
                elif how is Departure.MOVED:
                    store.purge(record.data_info_id, record.register_id)
                else:  # as at the leader: the same version does not come back
                    tombstone = record.tombstone()
                    store.put_gone(tombstone, self._outbox.now())
                    self._writes.submit_gone(slot, tombstone)
                if how is not Departure.MOVED and self._events is not None:
                    self._events.expired(record)
            yield

    def compact(self) -> None:
        """Forget tombstones and further copies that are older than :data:`TOMBSTONE_SECONDS`."""
        before = self._outbox.now() - TOMBSTONE_SECONDS
        for store in self.stores.values():
            store.compact(before)
        self.further_copies.compact(before)
