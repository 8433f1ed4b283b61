"""What session servers say of clients: which of them arrive, and which have left of late. Pure: time is an argument."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

FEW_CLIENTS = 8
"""Where more clients than this have left within two graces, a proxy or a switch has failed rather than all of them."""


def client_of(register_id: str) -> str:
    """The id of the client that made a register id: the part before the last ``-``; without one, all of it."""
    return register_id.rpartition("-")[0] or register_id


class ClientPresence:
    """A client *arrives* at a session process from its connection until everything that it had published is stored
    again. It may arrive at several: a client that gave up a connection to a late session server arrives there too, for
    a moment, once that server reads what has come."""

    def __init__(self) -> None:
        self._arriving: dict[str, set[str]] = {}
        self._left_at: OrderedDict[str, float] = OrderedDict()
        self._awaited_until: OrderedDict[str, float] = OrderedDict()

    def arrive(self, process_id: str, clients: Iterable[str]) -> None:
        """These clients are connected to the session process and send their records again."""
        for client in clients:
            self._arriving.setdefault(client, set()).add(process_id)

    def arrived(self, process_id: str, clients: Iterable[str]) -> None:
        """Everything of these clients is stored, or they have left the session process. Where they arrive at others,
        they still do."""
        for client in clients:
            processes = self._arriving.get(client, set())
            processes.discard(process_id)
            if not processes:
                self._arriving.pop(client, None)

    def drop(self, process_id: str) -> list[str]:
        """Nobody arrives at the session process any more. Returns the clients that did."""
        clients = [client for client, processes in self._arriving.items() if process_id in processes]
        self.arrived(process_id, clients)
        return clients

    def process_is_gone(self, process_id: str, now: float, grace_seconds: float) -> list[str]:
        """The session process is gone. The clients that arrived there are awaited elsewhere for the grace: it is a fact
        about them, because what they had published may be found in a slot only later. Returns them."""
        clients = self.drop(process_id)
        for client in clients:
            self._awaited_until[client] = now + grace_seconds
            self._awaited_until.move_to_end(client)
        return clients

    def awaited_until(self, client: str) -> float:
        """Until when the client is awaited, because the session process at which it arrived is gone; 0.0 where none
        is."""
        return self._awaited_until.get(client, 0.0)

    def is_arriving(self, client: str) -> bool:
        """Whether the client may still send again what it had published."""
        return client in self._arriving

    @property
    def arriving(self) -> int:
        """Number of clients that arrive."""
        return len(self._arriving)

    def left(self, client: str, now: float) -> None:
        """The client is lost to its session server."""
        self._left_at.pop(client, None)
        self._left_at[client] = now

    def lately(self, now: float, grace_seconds: float) -> int:
        """Number of clients that have left within two graces, so that the last of many has all of its own. Forgets what
        is over."""
        while self._awaited_until and next(iter(self._awaited_until.values())) <= now:
            self._awaited_until.popitem(last=False)
        while self._left_at and next(iter(self._left_at.values())) <= now - 2 * grace_seconds:
            self._left_at.popitem(last=False)
        return len(self._left_at)
