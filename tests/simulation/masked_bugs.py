"""Bugs that the simulator cannot find alone, because another rule of the product mends what they break.

Each is planted together with a patch that takes its mask away. The pair must be found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from slotreeve.model.publisher import Publisher
from slotreeve_client.core import ClientCore
from slotreeve_protocol.client_messages import Push
from slotreeve_protocol.slot_messages import SlotWrite
from slotreeve_servers.data.departures import Departures
from slotreeve_servers.data.losses import ClientLosses
from slotreeve_servers.session.routes import Routes

from tests.simulation.planting import BUGS, Patch, replaced, returning

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


def _removals_do_not_look() -> Patch:
    """A departure is removed without a look whether its record was sent again. ``SlotStore.put_gone`` still looks."""

    def remove(self: Any, departure: Any) -> None:
        slot, now = departure.slot, self._outbox.attended()
        if self._slots.get(slot.slot.id) is slot:
            claimed = [entry for entry in departure.lost if self.claims.protects(entry.record)]
            self._held.hold(claimed, now)
            lost = [e for e in departure.lost if e not in claimed and not self._held.postpone(e, now)]
            gone: list[Publisher] = [*departure.gone, *(entry.record.tombstone() for entry in lost)]
            self._writer.store(slot, SlotWrite(slot.slot.id, slot.slot.leader_epoch, [], gone, []))

    return replaced(Departures, "_remove", remove)


class _Slowly:
    """Runs an action some time later, in the place of a :class:`slotreeve_servers.node.outbox.TurnEnd`."""

    def __init__(self, outbox: Any, action: Callable[[], None]) -> None:
        self._outbox, self._action = outbox, action

    def soon(self) -> None:
        """Run it later."""
        self._outbox.after(SEARCH_SECONDS, self._action)


def _searches_are_slow() -> Patch:
    """The records of a lost process are searched slot by slot with a pause, not turn by turn."""
    original = ClientLosses.__init__

    def init(self: Any, outbox: Any, slots: Any, sessions: Any, departures: Any, rules: Any) -> None:
        original(self, outbox, slots, sessions, departures, rules)
        self._search = _Slowly(outbox, lambda: self._search_next())

    return replaced(ClientLosses, "__init__", init)


MASKED: dict[str, Mask] = {
    "deliver_without_replays": Mask(
        "a claim keeps the records of a client until all of its replay is stored",
        "moves",
        _as_bug("claims_never_begin"),
    ),
    "close_former_at_once": Mask(
        "the claim at the new session server keeps what the former one reports as lost",
        "moves",
        _as_bug("claims_never_begin"),
    ),
    "round_ends_unread": Mask(
        "the claim of a client arrives before any answer that its session server gives afterwards",
        "moves",
        _as_bug("claims_never_begin"),
    ),
    "clock_runs_while_frozen": Mask(
        "a departure round asks every session server, so that everything which waited is read before a removal",
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
        "a departure is dropped before it becomes a tombstone where its record was sent again",
        "moves",
        _removals_do_not_look,
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
