"""The links of a session server to the slot leaders, and what comes over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import GetNewerView
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    Changed,
    Compare,
    Compared,
    Confirm,
    SlotDifference,
    SlotDigests,
)

from slotreeve_servers.node.deltas import LONGEST_LETTER, size_of
from slotreeve_servers.node.digests import part_of
from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Outbox, Peer, Request
from slotreeve_servers.node.records import SlotStore, StoreDifference
from slotreeve_servers.session.clients.arrivals import Arrivals
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.records.registrations import Registrations
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.records.writes import Writes

MOST_TOMBSTONES = 5_000
"""Of one slot in an answer to a comparison."""
TOMBSTONE_BYTES = 8 << 20
"""These together, at most: names may be long."""


class SlotLeaders:
    """Declares interest and sends writes where a slot has another leader or link; answers the leaders' requests."""

    def __init__(
        self,
        outbox: Outbox,
        routes: Routes,
        writes: Writes,
        interests: Interests,
        registrations: Registrations,
        arrivals: Arrivals,
        newer_view: NewerView,
    ) -> None:
        self._outbox, self._arrivals, self._newer_view = outbox, arrivals, newer_view
        self._routes, self._writes = routes, writes
        self._interests, self._registrations = interests, registrations
        self.handlers = Handlers(
            {Changed: self._on_changed},
            {Compare: self._on_compare, Changed: self._on_part, GetNewerView: newer_view.answer},
            {Confirm: self._on_confirm},
        )

    def table_changed(self, table: SlotTable) -> None:
        """A newer slot table has arrived."""
        self._led_anew(self._routes.apply(table))

    def opened(self, peer: Peer) -> None:
        """The link to a data server is up."""
        self._routes.opened(peer)
        self._arrivals.link_opened(peer)
        self._led_anew(self._routes.led_by(peer.node))

    def _led_anew(self, slots: list[int]) -> None:
        """These slots have another leader or link."""
        self._interests.led_anew(slots)
        self._registrations.further_copies.report_again(slots)
        self._writes.routes_changed()

    def closed(self, peer: Peer, reason: str) -> None:
        """The link to a data server is down."""
        self._routes.closed(peer)
        self._writes.closed(peer)

    def _on_changed(self, peer: Peer, message: Changed) -> None:
        self._registrations.further_copies.over(message.over, partial(self._routes.leads, peer))
        self._interests.received(peer, message)

    def _on_part(self, peer: Peer, message: Changed) -> Message:
        self._on_changed(peer, message)
        return Done()

    def _on_compare(self, peer: Peer, message: Compare) -> Message:
        news = [
            asked.slot for asked in message.slots if self._routes.compares(peer.node, asked.slot, asked.leader_epoch)
        ]
        if news:
            self._led_anew(news)
        return Compared(self.differences(message.slots))

    def differences(self, asked: Iterable[SlotDigests]) -> list[SlotDifference]:
        """The truth for a slot leader that compares, slot by slot, up to bounded bytes. Where services differ it has
        their tombstones too: what was unpublished ends at once, and what is merely missing belongs to lost clients. The
        first time it has those of the other services too. Without them a leader that has no copy would take an ended
        registration from a session server that was frozen and still has it."""
        answers = []
        left = self._outbox.part_bytes
        for request in asked:
            found = StoreDifference(complete=False, upto=request.after)
            if left > 0:
                store = self._registrations.stores.get(request.slot, _NOTHING)
                found = store.difference(request, left)
                if request.serves or not request.is_first:
                    self._registrations.further_copies.leave_out(request.slot, found)
                found.cost += add_tombstones(found, store)
            ended = list[Publisher]()
            if request.is_first and found.complete:
                ended = [t for t in newest_tombstones(store) if t.data_info_id not in found.records]
            left -= found.cost + sum(map(size_of, ended))
            answers.append(
                SlotDifference(
                    request.slot,
                    Access.ACCEPT,
                    request.leader_epoch,
                    found.complete,
                    found.records,
                    found.parts,
                    found.upto,
                    ended,
                    self._writes.waited_us(request.slot),
                )
            )
        return answers

    def _on_confirm(self, peer: Peer, message: Confirm, request: Request) -> None:
        self._newer_view.heard(peer, message.revision)
        confirm = partial(self._outbox.reply, request, Answers([], self._newer_view.revision))
        if message.slots:
            # What a client has sent and this server has not read yet is on its way too.
            slots = [asked.slot for asked in message.slots]
            read = partial(self._outbox.when_read, partial(self._writes.when_stored, slots, confirm))
            if message.arrivals:
                self._arrivals.when_come(read)
            else:
                read()
        else:
            confirm()


def newest_tombstones(store: SlotStore) -> Iterator[Publisher]:
    """The newest tombstones of a slot, the newest one first, as many as are in one answer."""
    left = TOMBSTONE_BYTES
    for tombstone, _ in islice(reversed(store.tombstones.values()), MOST_TOMBSTONES):
        left -= LONGEST_LETTER * size_of(tombstone)
        if left < 0:
            return
        yield tombstone


def add_tombstones(found: StoreDifference, store: SlotStore) -> int:
    """Add the newest tombstones of the services and parts that differ. Returns a bound of their bytes."""
    size = 0
    if not (found.records or found.parts):
        return size
    for tombstone in newest_tombstones(store):
        records = found.records.get(tombstone.data_info_id)
        if records is not None:
            records.append(tombstone)
            size += size_of(tombstone)
        for part in found.parts:
            is_its = part.data_info_id == tombstone.data_info_id
            if is_its and part.number == part_of(tombstone.register_id, part.count):
                part.records.append(tombstone)
                size += size_of(tombstone)
    return size


_NOTHING = SlotStore()
