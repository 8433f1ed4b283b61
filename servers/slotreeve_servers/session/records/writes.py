"""The way of records from clients to slot leaders (original: ``DataNodeServiceImpl``).

Records wait per slot. What waits for one data server goes out as one message at the end of a turn of the event loop,
with at most ``IN_FLIGHT`` messages unanswered: an idle server sends at once, a busy one batches by itself. A batch that
is not answered with Accept or Migrating is sent again, to the slot's leader of that moment: storing twice changes
nothing (I10).
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import Published
from slotreeve_protocol.delay_messages import Lagging
from slotreeve_protocol.slot_messages import Access, Answers, SlotWrite, Write

from slotreeve_servers.node.outbox import Outbox, Peer, Retry, TurnEnd
from slotreeve_servers.node.timings import Timing
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.records.routes import Routes

IN_FLIGHT = 2
"""Messages to one data server that are not answered yet. One more may go out with records that are no replay, and one
with replays where none with replays is on its way."""
WEIGHT_PER_MESSAGE = 500
LIGHT_RECORDS = 32
"""Of a client with more records on their way than this, all go behind those of the others."""
RETRY_SECONDS = 0.05
ACKNOWLEDGE_SECONDS = 0.05
"""A client that sends everything again gets its acknowledgements together, the first of them so much later at most."""


LostRecords = OrderedDict[tuple[str, str], Publisher]
"""Records whose client is lost, by data info id and register id."""


@dataclass(eq=False, slots=True)
class AfterBatches:
    """An action that waits until these batches, ``batches`` of them, are stored."""

    batches: int
    action: Callable[[], None]

    def one_stored(self) -> None:
        """One of the batches is stored."""
        self.batches -= 1
        if self.batches == 0:
            self.action()


class Ahead(NamedTuple):
    """How many records, tombstones and lost records of a batch go before something that waits for them."""

    records: int
    gone: int
    lost: int

    def without(self, first: WriteBatch) -> Ahead:
        """What is left when these, the first of the batch, have gone out."""
        gone = len(first.records), len(first.gone), len(first.lost)
        return Ahead(*(max(0, here - out) for here, out in zip(self, gone, strict=True)))

    def behind(self, others: Ahead) -> Ahead:
        """The same where the others are put in front."""
        return Ahead(*(here + more for here, more in zip(self, others, strict=True)))


NOTHING = Ahead(0, 0, 0)


@dataclass(eq=False, slots=True)
class WriteBatch:
    """What waits for one slot, and to which clients each record is acknowledged.

    Attributes:
        records, clients, sequences: equally long.
        gone: tombstones of registrations whose client said that it leaves.
        lost: records whose client is lost.
        weight: of the records and the lost ones together, and of the tombstones, of which each weighs 1.
        after: what waits until this batch is stored, each with the number of the records that were here before it.
        since: when the first of it came, in seconds on the server's clock; or before that, where parts of it have gone
            out and more has come since.
        counted: how much of it is left of what was here at ``counted_at``. What came later is younger than that.
    """

    records: list[Publisher] = field(default_factory=list)
    gone: list[Publisher] = field(default_factory=list)
    lost: LostRecords = field(default_factory=OrderedDict)
    clients: list[ConnectedClient] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    weight: int = 0
    after: dict[AfterBatches, Ahead] = field(default_factory=dict)
    since: float = math.inf
    counted: Ahead = NOTHING
    counted_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is here yet."""
        self.counted_at = self.since

    @property
    def ahead(self) -> Ahead:
        """All that is here now."""
        return Ahead(len(self.records), len(self.gone), len(self.lost))

    def split(self, now: float) -> WriteBatch:
        """Cut off and return what goes out first, up to a bounded weight, a record, a tombstone and a lost record in
        turn: each of the three may come without end. What waits for this batch waits for the rest as well, unless all
        that was here before it goes out now."""
        first, count, gone = WriteBatch(since=self.since), 0, 0
        while first.weight < WEIGHT_PER_MESSAGE and (count < len(self.records) or gone < len(self.gone) or self.lost):
            if count < len(self.records):
                first.weight += self.records[count].weight
                count += 1
            if gone < len(self.gone):
                first.weight += 1
                gone += 1
            if self.lost:
                first.add_lost(self.lost.popitem(last=False)[1])
        first.gone, self.gone = self.gone[:gone], self.gone[gone:]
        first.records, self.records = self.records[:count], self.records[count:]
        first.clients, self.clients = self.clients[:count], self.clients[count:]
        first.sequences, self.sequences = self.sequences[:count], self.sequences[count:]
        self.weight -= first.weight
        first.after, self.after = self.after, {}
        for waiting, ahead in first.after.items():
            left = ahead.without(first)
            if any(left):
                waiting.batches += 1
                self.after[waiting] = left
        self.counted = self.counted.without(first)
        if not any(self.counted):
            self.since = self.counted_at
            self.counted, self.counted_at = self.ahead, now
        return first

    def add_lost(self, record: Publisher) -> None:
        """The client of this record is lost. It may wait here already, from an earlier report: the newer one stays."""
        key = record.data_info_id, record.register_id
        known = self.lost.get(key)
        if known is not None:
            if known.newer_than(record):
                return
            self.weight -= known.weight
        self.lost[key] = record
        self.weight += record.weight

    def extend(self, later: WriteBatch) -> None:
        """Append what came later for the same slot."""
        here = self.ahead
        self.records += later.records
        self.gone += later.gone
        # What came first is put in front: there may be very many behind it, and this is done after each refusal.
        for key, record in reversed(self.lost.items()):
            other = later.lost.get(key)
            if other is not None:
                record, other = (other, record) if other.newer_than(record) else (record, other)
                self.weight -= other.weight
            later.lost[key] = record
            later.lost.move_to_end(key, last=False)
        self.lost = later.lost
        self.clients += later.clients
        self.sequences += later.sequences
        self.weight += later.weight
        for waiting, ahead in later.after.items():
            if waiting in self.after:
                waiting.batches -= 1  # it waits for both, which are one now
            self.after[waiting] = ahead.behind(here)
        self.since = min(self.since, later.since)
        self.counted, self.counted_at = later.counted.behind(here), later.counted_at


Lane = dict[int, WriteBatch]
"""What waits, by slot."""


@dataclass(eq=False, slots=True)
class SentBatches:
    """One message on its way to a data server: for each batch its lane, slot, and the leader epoch that it names."""

    peer: Peer
    at: float
    batches: dict[WriteBatch, tuple[Lane, int, int]] = field(default_factory=dict)
    weight: int = 0
    has_replays: bool = False


class Writes:
    """All records on their way to slot leaders.

    Attributes:
        waiting: records of clients that no slot leader has stored yet. ``waiting_weight``: of these.
        retries: batches that were sent again since the start; 0 in a quiet cluster.
        answers: how long the slots' leaders took for the messages that they stored. ``stored``: how long it took from
            the first record of a batch until the leader had it.
    """

    def __init__(self, outbox: Outbox, routes: Routes) -> None:
        self._outbox, self._routes = outbox, routes
        self._prompt: Lane = {}
        self._replays: Lane = {}
        self._in_flight: dict[Peer, int] = {}
        # Of these, the messages with something of the replays.
        self._replays_in_flight: Counter[Peer] = Counter()
        self._sent: dict[int, dict[WriteBatch, SentBatches]] = {}
        self._refused: dict[int, tuple[Peer, int]] = {}
        # Records of lost clients by slot: those that are gathered, and those that wait for what was published before.
        self._lost: dict[int, LostRecords] = {}
        self._to_report: dict[int, LostRecords] = {}
        self._to_acknowledge: list[ConnectedClient] = []
        self._flush = TurnEnd(outbox, self._send_waiting)
        self._acknowledgements = TurnEnd(outbox, self._send_acknowledgements)
        self._to_acknowledge_late: list[ConnectedClient] = []
        self._late_acknowledgements = Retry(outbox, ACKNOWLEDGE_SECONDS, self._send_late_acknowledgements)
        self._retry = Retry(outbox, RETRY_SECONDS, self._try_refused)
        self.waiting = self.waiting_weight = self.retries = 0
        self.answers, self.stored = Timing(), Timing()

    def submit(self, slot: int, record: Publisher, weight: int, client: ConnectedClient, sequence: int) -> None:
        """Bring ``record``, which weighs ``weight``, to the leader of ``slot``, then acknowledge ``sequence`` to
        ``client``."""
        lane = self._replays if client.waiting >= LIGHT_RECORDS or client.is_replaying else self._prompt
        batch = lane.get(slot)
        if batch is None:
            batch = lane[slot] = WriteBatch(since=self._outbox.now())
        batch.records.append(record)
        batch.clients.append(client)
        batch.sequences.append(sequence)
        batch.weight += weight
        client.waiting += 1
        client.waiting_weight += weight
        self.waiting += 1
        self.waiting_weight += weight
        self._flush.soon()

    def submit_gone(self, slot: int, tombstone: Publisher) -> None:
        """Tell the leader of ``slot`` that the client of a registration has left, and said so."""
        batch = self._prompt.setdefault(slot, WriteBatch(since=self._outbox.now()))
        batch.gone.append(tombstone)
        batch.weight += 1
        self._flush.soon()

    def submit_lost(self, slot: int, record: Publisher) -> None:
        """Tell the leader of ``slot`` that the client of a registration is lost, once all that was submitted for the
        slot before is stored: the record may be among it, and what a leader that serves does not have is over."""
        self._lost.setdefault(slot, OrderedDict())[record.data_info_id, record.register_id] = record
        self._flush.soon()

    def _report_lost(self) -> None:
        """Of each slot, one report waits at a time: a link may come and go very often meanwhile."""
        for slot in [slot for slot in self._lost if slot not in self._to_report]:
            self._to_report[slot] = self._lost.pop(slot)
            published = [batch for batch in self._batches(slot) if batch.records]
            self._after(published, partial(self._report_lost_of, slot))

    def _report_lost_of(self, slot: int) -> None:
        batch = self._prompt.setdefault(slot, WriteBatch(since=self._outbox.now()))
        for record in self._to_report.pop(slot).values():
            batch.add_lost(record)
        self._flush.soon()

    @property
    def departing(self) -> int:
        """Registrations whose client has left or is lost, of which no slot leader has taken notice yet."""
        slots = {*self._prompt, *self._replays, *self._sent}
        told = sum(len(batch.gone) + len(batch.lost) for slot in slots for batch in self._batches(slot))
        for slot in {*self._lost, *self._to_report}:
            told += len(self._lost.get(slot, {}).keys() | self._to_report.get(slot, {}).keys())
        return told

    def routes_changed(self) -> None:
        """There is another table or link: what waits may go out now, and what was sent to a former leader is sent
        again."""
        for slot, batches in self._sent.items():
            leader = self._routes.leader_of(slot)
            for batch, sent in list(batches.items()):
                lane, _, epoch = sent.batches[batch]
                if leader is not None and leader != (sent.peer, epoch):
                    del sent.batches[batch], batches[batch]
                    self._put_back(lane, slot, batch)
        self._flush.soon()

    def when_stored(self, slots: Iterable[int], action: Callable[[], None]) -> None:
        """Act when all that waits or is on its way for these slots now is stored: at once where nothing is."""
        self._after([batch for slot in slots for batch in self._batches(slot)], action)

    def _batches(self, slot: int) -> list[WriteBatch]:
        """What waits, or is on its way, for a slot."""
        return [*self._sent.get(slot, ()), *(lane[slot] for lane in (self._prompt, self._replays) if slot in lane)]

    @staticmethod
    def _after(batches: Sequence[WriteBatch], action: Callable[[], None]) -> None:
        if not batches:
            action()
            return
        waiting = AfterBatches(len(batches), action)
        for batch in batches:
            batch.after[waiting] = batch.ahead

    def closed(self, peer: Peer) -> None:
        """A link to a data server is down; its unanswered requests fail by themselves."""
        self._in_flight.pop(peer, None)
        self._replays_in_flight.pop(peer, None)

    def long_waits(self, seconds: float, of: Iterable[int] | None = None) -> list[Lagging]:
        """The slots, ``of`` these if it is given, whose leaders have not stored something for longer than this, with
        the reason."""
        slots = sorted({*self._prompt, *self._replays, *self._sent} if of is None else of)
        waits = [(slot, self.waited_us(slot) / 1_000_000) for slot in slots]
        return [Lagging(f"slot {n}", "", "", waited, self._why_waits(n)) for n, waited in waits if waited > seconds]

    def waited_us(self, slot: int) -> int:
        """For how long the oldest of what the leader of a slot has not stored has waited, in microseconds."""
        since = min((batch.since for batch in self._batches(slot)), default=math.inf)
        return round(1_000_000 * (self._outbox.now() - since)) if since < math.inf else 0

    def _why_waits(self, slot: int) -> str:
        leader = self._routes.leader_of(slot)
        if leader is None:
            return "writes wait: it has no leader that this server is connected to"
        if self._refused.get(slot) == leader:
            return f"writes wait: {leader[0].node} does not lead it yet"
        return f"writes wait: {leader[0].node} has not answered"

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send_waiting(self) -> None:
        if self._lost:
            self._report_lost()
        messages: dict[Peer, SentBatches] = {}
        now = self._outbox.now()
        for lane in (self._prompt, self._replays):
            for slot, batch in lane.items():
                leader = self._routes.leader_of(slot)
                if leader is None or self._refused.get(slot) == leader:
                    continue
                peer, epoch = leader
                message = messages.get(peer)
                if message is None:
                    message = messages[peer] = SentBatches(peer, now)
                if self._in_flight.get(peer, 0) < self._most(lane, peer) and message.weight < WEIGHT_PER_MESSAGE:
                    part = batch if batch.weight <= WEIGHT_PER_MESSAGE else batch.split(now)
                    message.batches[part] = (lane, slot, epoch)
                    message.weight += part.weight
        for message in messages.values():
            if message.batches:
                self._send(message)

    def _most(self, lane: Lane, peer: Peer) -> int:
        """So many messages to a data server may be without an answer before one with something of this lane goes out.
        One with replays always may be: others publish without end."""
        if lane is self._prompt:
            return IN_FLIGHT + 1
        return IN_FLIGHT if self._replays_in_flight[peer] else IN_FLIGHT + 2

    def _send(self, sent: SentBatches) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            self._answered(sent, reply)

        batches = []
        for batch, (_, slot, epoch) in sent.batches.items():
            waited_us = round(1_000_000 * (sent.at - batch.since))
            batches.append(SlotWrite(slot, epoch, batch.records, batch.gone, [], list(batch.lost.values()), waited_us))
        write = Write(batches)
        if not self._outbox.ask(sent.peer, write, answered, math.inf):
            for batch, (lane, slot, _) in sent.batches.items():
                if lane[slot] is not batch:
                    self._put_back(lane, slot, batch)
            self._retry.later()
            return
        self._in_flight[sent.peer] = self._in_flight.get(sent.peer, 0) + 1
        sent.has_replays = any(lane is self._replays for lane, _, _ in sent.batches.values())
        self._replays_in_flight[sent.peer] += sent.has_replays
        for batch, (lane, slot, _) in sent.batches.items():
            self._sent.setdefault(slot, {})[batch] = sent
            rest = lane.pop(slot)
            if rest is not batch:
                lane[slot] = rest  # behind the other slots: each gets its turn

    def _answered(self, sent: SentBatches, reply: Message | None) -> None:
        if sent.peer in self._in_flight:
            self._in_flight[sent.peer] -= 1
            self._replays_in_flight[sent.peer] -= sent.has_replays
        stored: set[int] = set()
        now = 0.0
        if isinstance(reply, Answers):
            now = self._outbox.now()
            self.answers.took(now - sent.at)
            stored = {a.slot for a in reply.answers if a.access is Access.ACCEPT or a.access is Access.MIGRATING}
        for batch, (lane, slot, epoch) in sent.batches.items():
            del self._sent[slot][batch]
            if slot in stored:
                self.stored.took(now - batch.since)
                self._acknowledge(batch)
            else:
                self._refused[slot] = (sent.peer, epoch)
                self._put_back(lane, slot, batch)
        if self._prompt or self._replays:
            self._flush.soon()

    # --- acknowledging -----------------------------------------------------------------------------------------------

    def _acknowledge(self, batch: WriteBatch) -> None:
        self.waiting -= len(batch.records)
        are_light = not batch.lost and batch.weight == len(batch.records) + len(batch.gone)
        for client, sequence, record in zip(batch.clients, batch.sequences, batch.records, strict=True):
            weight = 1 if are_light else record.weight
            self.waiting_weight -= weight
            client.waiting -= 1
            client.waiting_weight -= weight
            if client.is_replaying and client.waiting:
                if not client.stored:
                    self._to_acknowledge_late.append(client)
                    self._late_acknowledgements.later()
            elif not client.stored or client.is_replaying:
                self._to_acknowledge.append(client)
                self._acknowledgements.soon()
            client.stored.append(sequence)
        for waiting in batch.after:
            waiting.one_stored()

    def _send_acknowledgements(self) -> None:
        clients, self._to_acknowledge = self._to_acknowledge, []
        self._acknowledge_to(clients)

    def _send_late_acknowledgements(self) -> None:
        clients, self._to_acknowledge_late = self._to_acknowledge_late, []
        self._acknowledge_to(clients)

    def _acknowledge_to(self, clients: Iterable[ConnectedClient]) -> None:
        for client in clients:
            sequences, client.stored = client.stored, []
            if sequences:
                # A client that does not take its acknowledgements is closed; it replays over its next connection.
                self._outbox.send(client.peer, Published(sequences))

    # --- trying again ------------------------------------------------------------------------------------------------

    def _put_back(self, lane: Lane, slot: int, batch: WriteBatch) -> None:
        """A refused batch goes in front of what came later. It waits for another leader, leader epoch or link, and is
        sent again after a pause where none of them comes."""
        self.retries += 1
        later = lane.pop(slot, None)
        if later is not None:
            batch.extend(later)
        lane[slot] = batch
        self._retry.later()

    def _try_refused(self) -> None:
        self._refused.clear()
        self._flush.soon()
