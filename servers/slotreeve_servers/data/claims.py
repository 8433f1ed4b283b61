"""The clients that send everything again at another session server, as one data server knows them. Pure.

See docs/decisions/0010-a-brake-on-mass-expiry.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.model.publisher import Publisher


def client_of(register_id: str) -> str:
    """The id of the client that made a register id: the part before the last ``-``; without one, all of it."""
    return register_id.rpartition("-")[0] or register_id


class ClaimedClients:
    """Which session processes claim a client. Several may: a client that gave up a connection to a late session server
    is claimed there too, for a moment, once that server reads what has arrived."""

    def __init__(self) -> None:
        self._processes: dict[str, set[str]] = {}

    def begin(self, process_id: str, clients: Iterable[str]) -> None:
        """These clients are connected to the session process and send their records again."""
        for client in clients:
            self._processes.setdefault(client, set()).add(process_id)

    def end(self, process_id: str, clients: Iterable[str]) -> None:
        """Everything of these clients is stored, or they have left the session process. The claims of other processes
        stay."""
        for client in clients:
            claimants = self._processes.get(client, set())
            claimants.discard(process_id)
            if not claimants:
                self._processes.pop(client, None)

    def of(self, process_id: str) -> list[str]:
        """The clients that a session process claims."""
        return [client for client, processes in self._processes.items() if process_id in processes]

    def drop(self, process_id: str) -> list[str]:
        """The session process is gone, and its claims with it. Returns the clients that it claimed."""
        clients = self.of(process_id)
        self.end(process_id, clients)
        return clients

    def has(self, client: str) -> bool:
        """Whether the client is connected to a session process."""
        return client in self._processes

    def protects(self, record: Publisher) -> bool:
        """Whether the record must stay: its client is connected to a session process, and may not have sent it again
        yet. That process may be the one that the record names: the client has left it, and has come back."""
        return bool(self._processes) and self.has(client_of(record.register_id))

    def __len__(self) -> int:
        """Number of clients that are claimed."""
        return len(self._processes)
