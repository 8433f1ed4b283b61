"""Whether this session server is cut off from slot leaders: then it sends its clients to the other session servers
(docs/decisions/0057-who-is-cut-off.md). Pure.

A network may let a client reach a session server, and not let that server reach a slot's leader. What the client
publishes is not stored then. Once the session server has left the view too, the leaders remove what they have of its
clients. The clients see nothing of this: their connection lives.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from itertools import islice

from slotreeve.ports import Message
from slotreeve_protocol.slot_messages import Access, Answers, Confirm, SlotEpoch

from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Outbox, Peer, send_to_all
from slotreeve_servers.session.clients.clients import ConnectedClient, redirect
from slotreeve_servers.session.records.routes import Routes

log = logging.getLogger("slotreeve.session")

LOOK_SECONDS = 0.5
PATIENCE_WITHOUT_LEASE = 2.0
"""A leader that does not confirm for so long is not reached, where the meta leader grants no lease either: the slot
leaders remove the records of this server's clients soon."""
PATIENCE = 10.0
"""The same under a lease: nothing is removed, and a leader that has died gets a successor meanwhile."""
FIRST_CLIENTS = 8
MOST_CLIENTS = 4_096
"""So many clients are sent away first, and twice as many with each further look, up to a limit. A leader that only
answers late ends it before many have moved."""
ARRIVAL_SECONDS = 5.0
ARRIVAL_SHARE = 0.25
"""A client that arrives meanwhile may stay for so long, and for this share of the time that the server has been cut
off. Where all session servers are cut off, clients so move less and less often."""


class Isolation:
    """Asks each data server from time to time whether it leads what the table says, and whether it has a newer view.

    Time counts while this process attends, so that a frozen server does not take its own lateness for a cut.

    Args:
        clients: the connected clients, which others change.
        process_id: of this server.

    Attributes:
        sent_away: clients that were sent away since the start.
        since: when the server was found to be cut off, on the attended clock; None while it is not.
    """

    def __init__(
        self,
        outbox: Outbox,
        routes: Routes,
        membership: Membership,
        newer_view: NewerView,
        clients: Mapping[Peer, ConnectedClient],
        process_id: str,
    ) -> None:
        self._outbox, self._routes, self._membership = outbox, routes, membership
        self._newer_view, self._clients, self._process_id = newer_view, clients, process_id
        self._confirmed_at: dict[str, float] = {}
        self._asked: set[Peer] = set()
        self._most = FIRST_CLIENTS
        self.sent_away = 0
        self.since: float | None = None

    def look(self) -> None:
        """Ask the data servers; send clients away while one of them has not confirmed for too long."""
        now, has_lease = self._outbox.attended(), self._membership.has_lease
        self._confirmed_at = {name: self._confirmed_at.get(name, now) for name in self._routes.leaders}
        for peer in self._routes.linked.values():
            self._ask(peer, has_lease)
        patience = PATIENCE if has_lease else PATIENCE_WITHOUT_LEASE
        unreached = [name for name, at in self._confirmed_at.items() if now - at > patience]
        if not unreached:
            self.since, self._most = None, FIRST_CLIENTS
            return
        if self.since is None:
            self.since = now
            log.warning(
                "cut off from %s%s; the clients are sent to the other session servers",
                ", ".join(unreached),
                "" if has_lease else " and from the meta leader",
            )
        stay = max(ARRIVAL_SECONDS, ARRIVAL_SHARE * (now - self.since))
        self._send_away(max(self.since, now - stay))
        self._most = min(2 * self._most, MOST_CLIENTS)

    def _send_away(self, connected_before: float) -> None:
        view = self._membership.view
        message = redirect(view, self._process_id)
        # Where the meta servers reach no session server, the view only misses them; the clients know their addresses.
        if message.addresses or any(process_id != self._process_id for process_id in view.missing):
            staying = (client for client in self._clients.values() if not client.is_sent_away)
            sent = list(islice((client for client in staying if client.since <= connected_before), self._most))
            for client in sent:
                client.is_sent_away = True
            self.sent_away += len(sent)
            send_to_all(self._outbox, [client.peer for client in sent], message)

    def _ask(self, peer: Peer, has_lease: bool) -> None:
        if peer in self._asked:
            return
        # Under a lease the table is the newest one: it is enough that the leader answers.
        led = [] if has_lease else [(slot, self._routes.leader_of(slot)) for slot in self._routes.led_by(peer.node)]
        slots = [SlotEpoch(slot, leader[1]) for slot, leader in led if leader is not None]
        question = Confirm(slots, revision=self._newer_view.revision)
        if self._outbox.ask(peer, question, partial(self._answered, peer), PATIENCE):
            self._asked.add(peer)

    def _answered(self, peer: Peer, reply: Message | None, error: Exception | None) -> None:
        self._asked.discard(peer)
        if not isinstance(reply, Answers):
            return
        if all(answer.access is Access.ACCEPT or answer.access is Access.MIGRATING for answer in reply.answers):
            self._confirmed_at[peer.node] = self._outbox.attended()
        self._newer_view.heard(peer, reply.revision)
