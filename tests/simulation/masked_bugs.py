"""Bugs that the simulator cannot find alone, because another rule of the product mends what they break.

Each is planted together with a patch that takes its mask away. The pair must be found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from slotreeve.model.publisher import Publisher
from slotreeve_client.core import ClientCore
from slotreeve_protocol.client_messages import Push
from slotreeve_protocol.slot_messages import SlotWrite
from slotreeve_servers.data.ending import LostRecord
from slotreeve_servers.data.endings import Endings
from slotreeve_servers.data.lost_clients import LostClients
from slotreeve_servers.node.outbox import Outbox
from slotreeve_servers.node.paced_work import PacedWork
from slotreeve_servers.session.routes import Routes

from tests.simulation.planting import BUGS, Patch, both, replaced, returning

SEARCH_SECONDS = 0.4
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


def _ends_do_not_look() -> Patch:
    """A registration ends without a look whether it was sent again. ``SlotStore.put_gone`` still looks."""

    def record_that_ends(self: LostRecord) -> Publisher | None:
        return self.record

    def remove_by(self: LostRecord, write: SlotWrite, record: Publisher) -> None:
        write.gone.append(record.tombstone())

    return both(
        replaced(LostRecord, "record_that_ends", record_that_ends),
        replaced(LostRecord, "remove_by", remove_by),
        returning(Endings, "stored"),
    )


class _SlowTurns:
    """An outbox whose turns end late."""

    def __init__(self, outbox: Any) -> None:
        self._outbox = outbox

    def at_turns_end(self, action: Callable[[], None]) -> None:
        """Act some time later."""
        self._outbox.after(SEARCH_SECONDS, action)


def _searches_are_slow() -> Patch:
    """The records of a lost process are searched slot by slot with a pause, not turn by turn."""
    original = LostClients.__init__

    def init(self: Any, outbox: Any, slots: Any, sessions: Any, endings: Any, rules: Any) -> None:
        original(self, outbox, slots, sessions, endings, rules)
        self._work = PacedWork(cast("Outbox", _SlowTurns(outbox)))

    return replaced(LostClients, "__init__", init)


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
    "stale_routes": Mask(
        "a new leader compares with every session server, which learns from it who leads the slot",
        "data",
        _comparisons_teach_nothing,
    ),
    "gone_without_a_look": Mask(
        "a lost registration is vouched for, and leaves no tombstone, where it was sent again",
        "moves",
        _ends_do_not_look,
        is_harmless=True,
        first=3,
    ),
    "search_what_is_back": Mask(
        "a search of all slots takes a few turns, and within these no process comes back",
        "frozen",
        _searches_are_slow,
        is_harmless=True,
        first=1,
    ),
}
"""Bugs and their masks."""
