"""The clients of one session server: who is connected, what each published, since when it is silent."""

from __future__ import annotations

from slotreeve.errors import TransportError
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Connection
from slotreeve_protocol.client_messages import Published


class ConnectedClient:
    """One client connection.

    Attributes:
        records: the live records it published over this connection, by register id.
        wants: the services it subscribes to, as keys of the interests.
        configs: the configuration keys it watches.
        waiting: how many of its records are on their way to the slot leaders.
        is_off: nobody shall see what it publishes (the operator's order).
        last_seen: when it was last heard of.
    """

    __slots__ = ("_acknowledged", "configs", "connection", "is_off", "last_seen", "records", "waiting", "wants")

    def __init__(self, connection: Connection, now: float) -> None:
        self.connection = connection
        self.records: dict[str, Publisher] = {}
        self.wants: set[str] = set()
        self.configs: set[str] = set()
        self.waiting = 0
        self.is_off = False
        self.last_seen = now
        self._acknowledged: list[int] = []

    def acknowledge(self, sequence: int) -> bool:
        """Note that a record is stored; True if it is the first since the last :meth:`flush`."""
        self.waiting -= 1
        self._acknowledged.append(sequence)
        return len(self._acknowledged) == 1

    def flush(self) -> None:
        """Send the noted acknowledgements in one message."""
        sequences, self._acknowledged = self._acknowledged, []
        try:
            self.connection.send(Published(sequences))
        except TransportError:
            # A client that cannot take acknowledgements is gone or hopelessly behind: it will replay.
            self.connection.close("it does not read its acknowledgements")
