"""The clients of one session server: what each published, and what each watches."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Redirect
from slotreeve_protocol.meta_messages import View

from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.permits import Permit, permit_of


@dataclass(eq=False, slots=True, repr=False)
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
        waiting: how many of its records are on their way to the slot leaders. ``waiting_weight``: of these.
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

    peer: Peer
    since: float = 0.0
    permit: Permit | None = field(init=False)
    own: str = field(init=False)
    records: dict[str, Publisher] = field(default_factory=dict)
    weight: int = 0
    watched: dict[str, None] = field(default_factory=dict)
    configs: set[str] = field(default_factory=set)
    waiting: int = 0
    waiting_weight: int = 0
    is_off: bool = False
    is_limited: bool = False
    is_replaying: bool = True
    has_given_up: bool = False
    is_sent_away: bool = False
    rest_seconds: float = 0.0
    late_seconds: float = 0.0
    stored: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.permit = permit_of(self.peer.proven)
        self.own = f"{self.peer.node}-" if self.peer.proven is not None else ""


def redirect(view: View, process_id: str) -> Redirect:
    """The message that sends clients from this session process to the other session servers."""
    return Redirect([node.address for node in view.sessions if node.process_id != process_id])
