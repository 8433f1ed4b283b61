"""Reads on behalf of clients, at the slot leaders."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve.clock import Clock
from slotreeve.errors import Backpressure, RequestTimeout, TransportError
from slotreeve.ports import Connection, Message
from slotreeve_protocol.client_messages import Datum, ListServices, Services
from slotreeve_protocol.general_messages import Failed
from slotreeve_protocol.slot_messages import Fetch

from slotreeve_servers.session.routes import Routes

RETRY_SECONDS = 0.02
GIVE_UP_SECONDS = 4.0
ASK_SECONDS = 2.0

Answer = Callable[[Message], None]


class Reads:
    """Answers a client's reads; while a slot has no leader that serves, a read waits, up to four seconds (I7)."""

    def __init__(self, routes: Routes, clock: Clock) -> None:
        self._routes, self._clock = routes, clock

    def get(self, slot: int, data_info_id: str, answer: Answer) -> None:
        """Read one service; ``answer`` gets a Datum, or Failed."""
        self._try(slot, data_info_id, answer, self._clock.now() + GIVE_UP_SECONDS)

    def _try(self, slot: int, data_info_id: str, answer: Answer, deadline: float) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            # A reply under an epoch that is no longer the slot's may be incomplete: it is asked for again (I7).
            if isinstance(reply, Datum) and self._routes.leader_of(slot) == leader:
                answer(reply)
            elif self._clock.now() < deadline:
                self._clock.call_later(RETRY_SECONDS, lambda: self._try(slot, data_info_id, answer, deadline))
            else:
                why = str(error) if error is not None else "its leader does not serve it yet"
                answer(Failed(RequestTimeout.code, f"slot {slot} of {data_info_id} cannot be read: {why}"))

        leader = self._routes.leader_of(slot)
        if leader is None:
            answered(None, RequestTimeout("it has no leader that can be reached"))
            return
        connection, epoch = leader
        try:
            connection.request(Fetch(slot, epoch, data_info_id), answered, ASK_SECONDS)
        except Backpressure as error:
            answer(Failed(error.code, str(error)))
        except TransportError as error:
            answered(None, error)

    def list_services(self, prefix: str, leaders: list[Connection], answer: Answer) -> None:
        """Ask every data server; ``answer`` gets Services, or Failed if any did not answer."""
        counts: dict[str, int] = {}
        missing = len(leaders)
        if not missing:
            answer(Services({}))
            return

        def one(reply: Message | None, error: Exception | None) -> None:
            nonlocal missing
            if missing <= 0:
                return
            if not isinstance(reply, Services):
                missing = 0
                answer(Failed(RequestTimeout.code, f"a data server did not list its services: {error or reply}"))
                return
            counts.update(reply.counts)
            missing -= 1
            if missing == 0:
                answer(Services(counts))

        for connection in leaders:
            try:
                connection.request(ListServices(prefix), one, ASK_SECONDS)
            except TransportError as error:
                one(None, error)
