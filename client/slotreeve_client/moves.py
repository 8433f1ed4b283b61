"""Which connections a client uses while it moves from one session server to another. Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

Connected = TypeVar("Connected")
"""The type of connections."""


class ClientMove(Generic[Connected]):
    """The connection that a client uses, and the one that it keeps until the first has taken over.

    Make before break: a session server that stops sends its clients away. A client then opens a second connection and
    sends everything there. The former connection stays until the replay on the new one is acknowledged and the
    subscriptions are current.

    Attributes:
        present: the connection that the client sends to; None if there is none.
        former: the complete connection that it keeps; None unless it moves.
    """

    __slots__ = ("former", "present")

    def __init__(self) -> None:
        self.present: Connected | None = None
        self.former: Connected | None = None

    def take(self, connection: Connected) -> Connected | None:
        """Use ``connection`` from now on. Returns a connection that must be closed: one that was to take over and never
        became complete."""
        dropped = None
        if self.former is None:
            self.former = self.present
        else:
            dropped = self.present
        self.present = connection
        return dropped

    def complete(self) -> Connected | None:
        """The present connection has taken over, or has had its time. Returns the former one, which must be closed."""
        former, self.former = self.former, None
        return former

    def lost(self, connection: Connected) -> bool:
        """A connection has ended. True if it was the present one. Then :attr:`present` is the former one, if that still
        lives."""
        if connection is self.former:
            self.former = None
        if connection is not self.present:
            return False
        self.present, self.former = self.former, None
        return True
