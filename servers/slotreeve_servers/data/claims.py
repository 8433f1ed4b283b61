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
    """Which session process claims a client: the last one that began a claim which has not ended."""

    def __init__(self) -> None:
        self._processes: dict[str, str] = {}

    def begin(self, process_id: str, clients: Iterable[str]) -> None:
        """These clients are connected to the session process and send their records again."""
        for client in clients:
            self._processes[client] = process_id

    def end(self, process_id: str, clients: Iterable[str]) -> None:
        """Everything of these clients is stored, or they have left the session process. A claim that another process
        has begun meanwhile stays."""
        for client in clients:
            if self._processes.get(client) == process_id:
                del self._processes[client]

    def drop(self, process_id: str) -> None:
        """The session process is gone, and its claims with it."""
        for client in [client for client, claimant in self._processes.items() if claimant == process_id]:
            del self._processes[client]

    def claimant(self, client: str) -> str | None:
        """The session process that claims a client; None where there is none."""
        return self._processes.get(client)

    def protects(self, record: Publisher) -> bool:
        """Whether the record must stay: its client is connected to another session process than the record names, and
        may not have sent it again yet."""
        if not self._processes:
            return False
        claimant = self._processes.get(client_of(record.register_id))
        return claimant is not None and claimant != record.session

    def __len__(self) -> int:
        """Number of claims."""
        return len(self._processes)
