"""The clients of one session server: what each published, and what each watches."""

from __future__ import annotations

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Redirect
from slotreeve_protocol.meta_messages import View

from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.permits import permit_of


class ConnectedClient:
    """One client connection.

    Attributes:
        peer: the connection.
        permit: what it may do; None: everything.
        own: how the ids of its registrations begin; empty where it has no key, so that nobody knows who it is.
        since: when it was made, on the attended clock.
        records: the live records that it published over this connection, by register id.
        watched: the data info ids that it subscribes to.
        configs: the configuration keys that it watches.
        waiting: how many of its records are on their way to the slot leaders.
        is_off: nothing that it publishes is visible, by the operator's orders.
        is_limited: it was refused something because of a limit.
        is_replaying: it may still send records that it published before this connection.
        has_given_up: it said that it lives and looks for another session server.
        is_sent_away: it was told to use another session server.
        late_seconds: how late its callbacks were, by its last ping.
        rest_seconds: it was last told to wait so long before its next ping.
        weight: of its records.
        stored: sequences of records that are stored but not acknowledged to it yet.
    """

    __slots__ = (
        "configs",
        "has_given_up",
        "is_limited",
        "is_off",
        "is_replaying",
        "is_sent_away",
        "late_seconds",
        "own",
        "peer",
        "permit",
        "records",
        "rest_seconds",
        "since",
        "stored",
        "waiting",
        "watched",
        "weight",
    )

    def __init__(self, peer: Peer, since: float = 0.0) -> None:
        self.peer, self.since = peer, since
        self.permit = permit_of(peer.proven)
        self.own = f"{peer.node}-" if peer.proven is not None else ""
        self.records: dict[str, Publisher] = {}
        self.weight = 0
        self.watched: set[str] = set()
        self.configs: set[str] = set()
        self.waiting = 0
        self.is_off = self.is_limited = False
        self.is_replaying = True
        self.has_given_up = False
        self.is_sent_away = False
        self.rest_seconds = self.late_seconds = 0.0
        self.stored: list[int] = []


def redirect(view: View, process_id: str) -> Redirect:
    """The message that sends clients from this session process to the other session servers."""
    return Redirect([node.address for node in view.sessions if node.process_id != process_id])
