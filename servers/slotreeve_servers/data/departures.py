"""Registrations whose clients are said to have left: they go once every session server was heard.

A client that lost its session server is back at another one at once. Where the slot's leader cannot be reached
meanwhile, or hardly, the old server's word that the client left and the new one's that it is here wait side by side,
and then come in any order. Taken as they come, a registration that lives would be seen to vanish. So the leader first
asks each session server for what it has on its way: whatever came back is newer then, and stays. (The original removes
at once.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slotreeve.clock import Clock
from slotreeve.errors import TransportError
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Connection, Message
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.slot_messages import Deliver, SlotWrite

from slotreeve_servers.data.slots import HeldSlot

log = logging.getLogger("slotreeve.departures")

GATHER_SECONDS = 0.01
"""What leaves within this time is asked for together."""
AGAIN_SECONDS = 0.05
"""A session server that is not connected, or did not answer, is asked again after this time."""


@dataclass(slots=True)
class _Departure:
    """What is to go from one slot. ``gone``: tombstones; ``left``: records as they were, to go without a trace."""

    slot: HeldSlot
    gone: list[Publisher]
    left: list[Publisher]


class Departures:
    """What is to go, round after round: gather, ask every session server, remove.

    Args:
        held: the slot that this server holds under a number.
        store: takes the write that removes.
        parted: is told of each record that went without a trace.
        sessions: the members' process ids, each with its connection if it has one.
        patience_seconds: a round does not wait longer than this, whoever has not answered.
    """

    def __init__(
        self,
        clock: Clock,
        held: Callable[[int], HeldSlot | None],
        store: Callable[[HeldSlot, SlotWrite], None],
        parted: Callable[[Publisher], None],
        sessions: Callable[[], Mapping[str, Connection | None]],
        patience_seconds: float,
    ) -> None:
        self._clock, self._held, self._store, self._sessions = clock, held, store, sessions
        self._parted = parted
        self._patience = patience_seconds
        self._gathered: list[_Departure] = []
        self._round: list[_Departure] = []
        self._slots: list[int] = []
        self._unheard: set[str] = set()
        self._asked: set[str] = set()
        self._give_up_at = 0.0

    def add(self, slot: HeldSlot, gone: list[Publisher], left: list[Publisher]) -> None:
        """These are to go from ``slot``: at once where it does not serve, for there nobody sees it."""
        departure = _Departure(slot, gone, left)
        if not slot.serving:
            self._apply(departure)
            return
        slot.departing += 1
        if not self._gathered and not self._round:
            self._clock.call_later(GATHER_SECONDS, self._begin)
        self._gathered.append(departure)

    def _begin(self) -> None:
        self._round, self._gathered = self._gathered, []
        self._slots = sorted({departure.slot.slot.id for departure in self._round})
        self._unheard = set(self._sessions())
        self._asked = set()
        self._give_up_at = self._clock.now() + self._patience
        self._ask()

    def _ask(self) -> None:
        """Ask whoever has not answered yet; end the round where all have, or for too long have not."""
        sessions = self._sessions()
        self._unheard &= sessions.keys()
        if not self._unheard or self._clock.now() >= self._give_up_at:
            self._end()
            return
        for process in sorted(self._unheard - self._asked):
            connection = sessions[process]
            if connection is not None:
                self._ask_one(process, connection)
        self._clock.call_later(AGAIN_SECONDS, self._look_again(self._round))

    def _look_again(self, of_round: list[_Departure]) -> Callable[[], None]:
        def look() -> None:
            if self._round is of_round:
                self._ask()

        return look

    def _ask_one(self, process: str, connection: Connection) -> None:
        of_round = self._round

        def answered(reply: Message | None, error: Exception | None) -> None:
            if self._round is not of_round:
                return
            self._asked.discard(process)
            if isinstance(reply, Done):
                self._unheard.discard(process)
                if not self._unheard:
                    self._end()

        try:
            connection.request(Deliver(self._slots), answered, self._patience)
        except TransportError as error:
            log.info("%s not asked for what it has on its way, it will be: %s", connection.peer.node, error)
        else:
            self._asked.add(process)

    def _end(self) -> None:
        ended, self._round = self._round, []
        for departure in ended:
            departure.slot.departing -= 1
            self._apply(departure)
        if self._gathered:
            self._begin()

    def _apply(self, departure: _Departure) -> None:
        slot = departure.slot
        if self._held(slot.slot.id) is not slot:
            return  # whoever leads it now compares with every session first, and so finds what left
        left = [record for record in departure.left if slot.store.find(record) == record]
        if departure.gone or left:
            purged = [(record.data_info_id, record.register_id) for record in left]
            self._store(slot, SlotWrite(slot.slot.id, slot.slot.leader_epoch, [], departure.gone, purged))
        for record in left:
            self._parted(record)
