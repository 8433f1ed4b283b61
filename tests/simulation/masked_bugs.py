"""Bugs that the simulator cannot find alone, because another rule of the product mends what they break.

Each is planted together with a patch that takes its mask away. The pair must be found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from slotreeve_client.core import ClientCore
from slotreeve_protocol.client_messages import Publish, Push
from slotreeve_servers.data.replication.confirmations import FollowerConfirmations
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.isolation import Isolation
from slotreeve_servers.session.core import SessionCore
from slotreeve_servers.session.records.routes import Routes

from tests.simulation.planting import BUGS, Patch, replaced, returning

PUSHES_PER_LOSS = 20


class Mask(NamedTuple):
    """Why a bug is not found alone.

    Attributes:
        reason: what mends it. ``scenario``: the scenario that finds the pair.
        remove: takes that away.
        is_harmless: without the mask alone, every invariant holds. ``first``: the first seed to try.
    """

    reason: str
    scenario: str
    remove: Callable[[], Patch]
    is_harmless: bool = False
    first: int = 0


def _as_bug(name: str) -> Callable[[], Patch]:
    return lambda: BUGS[name].make()


def _copies_are_forgotten() -> Patch:
    """Every twentieth push finds a copy at the client that it does not fit: the client asks for the whole service."""
    original = ClientCore._pushed
    count = 0

    def pushed(self: ClientCore, push: Push) -> None:
        nonlocal count
        count += 1
        watched = self.services.by_key.get((push.data_info_id, push.scope))
        if watched is not None and count % PUSHES_PER_LOSS == 0:
            watched.copy.forget_version()
        original(self, push)

    return replaced(ClientCore, "_pushed", pushed)


def _comparisons_teach_nothing() -> Patch:
    """A session server does not learn from a comparison which server leads a slot."""
    return returning(Routes, "compares", False)


def _replays_break() -> Patch:
    """Of three connections of a client in a row, two are closed when the first of what it sends again has come."""
    original = SessionCore._on_publish
    begun: Counter[str] = Counter()

    def on_publish(self: SessionCore, peer: Peer, message: Publish) -> None:
        client = self.clients.get(peer)
        is_first = client is not None and client.is_replaying and not client.records
        original(self, peer, message)
        if is_first:
            begun[peer.node] += 1
            if begun[peer.node] % 3:
                self._outbox.close(peer, "made up")

    return replaced(SessionCore, "_on_publish", on_publish)


MASKED: dict[str, Mask] = {
    "deliver_without_replays": Mask(
        "a client arrives, and so keeps its records, until all of its replay is stored",
        "moves",
        _as_bug("nobody_arrives"),
    ),
    "close_former_at_once": Mask(
        "that a client arrives at the new session server keeps what the former one reports as lost",
        "moves",
        _as_bug("nobody_arrives"),
    ),
    "round_ends_unread": Mask(
        "that a client arrives is told before any answer that its session server gives afterwards",
        "moves",
        _as_bug("nobody_arrives"),
    ),
    "clock_runs_while_frozen": Mask(
        "every session server is asked, so that everything which waited is read before an end",
        "moves",
        _as_bug("believe_leaving_at_once"),
    ),
    "ignore_receipt_resets": Mask(
        "pushes over one connection fit each other, so that clients hardly ever ask for a whole service",
        "clients",
        _copies_are_forgotten,
        is_harmless=True,
    ),
    "confirms_while_it_copies": Mask(
        "a leader that has a newer table acknowledges nothing for which it waited under an earlier leadership",
        "copies",
        partial(returning, FollowerConfirmations, "table_changed"),
    ),
    "stale_routes": Mask(
        "a new leader compares with every session server, which learns from it who leads the slot",
        "data",
        _comparisons_teach_nothing,
    ),
    "unconfirmed_renew": Mask(
        "a session server sends its clients elsewhere where it does not reach the leaders of the slots",
        "parted",
        partial(returning, Isolation, "look"),
        is_harmless=True,
        first=7,
    ),
    "arrived_when_it_left": Mask(
        "a connection hardly ever ends while its client sends everything again",
        "moves",
        _replays_break,
        is_harmless=True,
        first=3,
    ),
}
"""Bugs and their masks."""
