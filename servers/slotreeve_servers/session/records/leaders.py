"""The links of a session server to the slot leaders, and what comes over them."""

from __future__ import annotations

from functools import partial

from slotreeve.model.slots import SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import GetNewerView
from slotreeve_protocol.slot_messages import Answers, Changed, Compare, Compared, Confirm

from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Outbox, Peer, Request
from slotreeve_servers.session.clients.arrivals import Arrivals
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.records.registrations import Registrations
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.records.writes import Writes


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
            {Changed: interests.received},
            {Compare: self._on_compare, Changed: self._on_part, GetNewerView: newer_view.answer},
            {Confirm: self._on_confirm},
        )

    def table_changed(self, table: SlotTable) -> None:
        """A newer slot table has arrived."""
        self._interests.declare_slots(self._routes.apply(table))
        self._writes.routes_changed()

    def opened(self, peer: Peer) -> None:
        """The link to a data server is up."""
        self._routes.opened(peer)
        self._arrivals.link_opened(peer)
        self._interests.declare_slots(self._routes.led_by(peer.node))
        self._writes.routes_changed()

    def closed(self, peer: Peer, reason: str) -> None:
        """The link to a data server is down."""
        self._routes.closed(peer)
        self._writes.closed(peer)

    def _on_part(self, peer: Peer, message: Changed) -> Message:
        self._interests.received(peer, message)
        return Done()

    def _on_compare(self, peer: Peer, message: Compare) -> Message:
        news = [
            asked.slot for asked in message.slots if self._routes.compares(peer.node, asked.slot, asked.leader_epoch)
        ]
        if news:
            self._interests.declare_slots(news)
            self._writes.routes_changed()
        return Compared(self._registrations.differences(message.slots))

    def _on_confirm(self, peer: Peer, message: Confirm, request: Request) -> None:
        self._newer_view.heard(peer, message.revision)
        confirm = partial(self._outbox.reply, request, Answers([], self._newer_view.revision))
        if message.slots:
            # What a client has sent and this server has not read yet is on its way too.
            slots = [asked.slot for asked in message.slots]
            self._outbox.when_read(partial(self._writes.when_stored, slots, confirm))
        else:
            confirm()
