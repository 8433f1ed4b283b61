"""What a client published before it connected, and sends again over a new connection. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class ClientReplay:
    """The progress of one replay.

    After the last record of it was sent, the client sends one ``ReplayEnded``: what the servers still hold of its older
    connections has ended.

    Args:
        register_ids: the registrations to send.

    Attributes:
        unsent: those that were not sent yet.
        unstored: those that no slot leader has acknowledged over this connection.
    """

    __slots__ = ("_ended", "unsent", "unstored")

    def __init__(self, register_ids: Iterable[str]) -> None:
        self.unsent = set(register_ids)
        self.unstored = set(self.unsent)
        self._ended = False

    def postponed(self, register_id: str) -> None:
        """The server has no room for this record now: it will be sent again."""
        if not self._ended and register_id in self.unstored:
            self.unsent.add(register_id)

    def dropped(self, register_id: str) -> None:
        """This registration has ended."""
        self.unsent.discard(register_id)
        self.unstored.discard(register_id)

    def end(self) -> bool:
        """Whether ``ReplayEnded`` must be sent now. True once."""
        if self._ended or self.unsent:
            return False
        self._ended = True
        return True

    @property
    def is_stored(self) -> bool:
        """Whether all of it was sent and is acknowledged."""
        return self._ended and not self.unstored
