"""What clients want to watch, where very many ask at once: it is worked off in parts."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

from slotreeve.errors import AccessError, Forbidden, ModelError, SlotreeveError
from slotreeve.model.rights import Right
from slotreeve_protocol.client_messages import NotPushed, Scope, Subscribe, Unsubscribe, Want

from slotreeve_servers.node.dispatch import LONGEST_COMPLAINT
from slotreeve_servers.node.outbox import Outbox
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.limits import ClientLimits

log = logging.getLogger("slotreeve.session")

WANTS_AT_ONCE = 50
"""So many wants of one client are carried out in one step."""
MOST_WAITING = 100_000
"""So many wants of one client wait at most. One that sends more, faster than they are carried out, is disconnected."""


class DueWants:
    """The wants of each client, in the order in which they came. The clients take turns.

    Args:
        subscribe, unsubscribe: carry them out; the former with the slot of the service.
        slot_of: the slot of a data info id; it raises ModelError where the id cannot be one.
    """

    def __init__(
        self,
        outbox: Outbox,
        subscribe: Callable[[ConnectedClient, Want, int], None],
        unsubscribe: Callable[[ConnectedClient, str, tuple[Scope, ...]], None],
        slot_of: Callable[[str], int],
        limits: ClientLimits,
    ) -> None:
        self._outbox, self._subscribe, self._unsubscribe = outbox, subscribe, unsubscribe
        self._slot_of, self._limits = slot_of, limits
        self._waiting: dict[ConnectedClient, deque[deque[Want | Unsubscribe]]] = {}
        self._numbers: Counter[ConnectedClient] = Counter()

    def add(self, client: ConnectedClient, message: Subscribe | Unsubscribe) -> None:
        """Carry this out after what waits: at once if nothing does, nothing else is unread, and it is short. To end a
        subscription is as little work as to let it wait."""
        wants = (message,) if isinstance(message, Unsubscribe) else message.wants
        is_short = not self._waiting and len(wants) <= WANTS_AT_ONCE and not self._outbox.has_unread
        if is_short or (isinstance(message, Unsubscribe) and client not in self._waiting):
            self._follow(client, wants)
            return
        if not wants:
            return
        messages = self._waiting.get(client)
        if messages is None:
            messages = self._waiting[client] = deque()
            self._outbox.pace(self._serve, client, is_patient=True)
        self._numbers[client] += len(wants)
        if self._numbers[client] > MOST_WAITING:
            self.forget(client)
            self._outbox.close(client.peer, f"more than {MOST_WAITING} subscriptions wait; ask for fewer at a time")
        elif messages and isinstance(message, Unsubscribe) and isinstance(messages[-1][-1], Unsubscribe):
            messages[-1].append(message)  # many ends, each a message, are carried out together
        else:
            messages.append(deque(wants))

    def forget(self, client: ConnectedClient) -> None:
        """The connection of the client has ended."""
        self._waiting.pop(client, None)
        self._numbers.pop(client, None)

    def _serve(self, client: ConnectedClient) -> Iterator[None]:
        while messages := self._waiting.get(client):
            wants = [messages[0].popleft() for _ in range(min(WANTS_AT_ONCE, len(messages[0])))]
            if not messages[0]:
                messages.popleft()
            self._numbers[client] -= len(wants)
            self._follow(client, wants)
            yield
        self.forget(client)

    def _follow(self, client: ConnectedClient, wants: Iterable[Want | Unsubscribe]) -> None:
        refused = list[SlotreeveError]()
        for want in wants:
            if isinstance(want, Unsubscribe):
                self._unsubscribe(client, want.data_info_id, (want.scope,))
                continue
            try:
                if client.permit is not None:
                    client.permit.check(Right.READ, want.data_info_id)
                self._limits.check_subscription(client, want.data_info_id)
                slot = self._slot_of(want.data_info_id)
            except (ModelError, AccessError) as error:
                self._outbox.send(client.peer, NotPushed(want.data_info_id, want.scope, error.code, str(error)))
                refused.append(error)
                if isinstance(error, Forbidden):
                    self._outbox.denied(client.peer, str(error))
            else:
                self._subscribe(client, want, slot)
        if refused:
            told = "%d subscriptions of %s are refused; the first: %s"
            client.peer.complain(log, told, len(refused), client.peer.node, str(refused[0])[:LONGEST_COMPLAINT])
