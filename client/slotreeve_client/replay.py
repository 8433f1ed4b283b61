"""What a client published before it connected, and sends again over a new connection. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class ClientReplay:
    """The progress of one replay.

    Once all of it is stored, the client sends one ``ReplayEnded``. That tells the servers that what they still hold of
    this client's older connections has ended.

    Args:
        register_ids: the registrations to send.

    Attributes:
        unstored: those that no slot leader has acknowledged over this connection.
    """

    __slots__ = ("_ended", "unstored")

    def __init__(self, register_ids: Iterable[str]) -> None:
        self.unstored = set(register_ids)
        self._ended = False

    def stored(self, register_id: str) -> bool:
        """This registration is stored, or was refused for good. True if it was the last one that was waited for."""
        if register_id not in self.unstored:
            return False
        self.unstored.discard(register_id)
        return not self.unstored

    def end(self) -> bool:
        """Whether ``ReplayEnded`` must be sent now. True once."""
        if self._ended or self.unstored:
            return False
        self._ended = True
        return True

    @property
    def is_stored(self) -> bool:
        """Whether all of it is acknowledged."""
        return not self.unstored
