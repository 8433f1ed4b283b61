"""One client's subscription to one service under one scope."""

from __future__ import annotations

from typing import Protocol

from slotreeve.model.datum import NO_VERSION

from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.push.push_frames import PushFrames


class PushedService(Protocol):
    """The group of subscribers that this one belongs to.

    Attributes:
        data_info_id: the service.
    """

    data_info_id: str

    def why_behind(self, subscriber: Subscriber) -> str:
        """Why this subscriber was not pushed to, for people."""


class Subscriber:
    """What one client has of one service.

    Attributes:
        version: version of the last push that was sent to it.
        in_flight: versions of the pushes whose receipt has not arrived, in order.
        whole: version of the last push that carried the whole service.
        known: version and digest of the copy that the client had when it subscribed, until the first push.
        parted: the push whose parts are on their way. ``sent``: number of its parts that were sent.
        behind_since: see :class:`slotreeve_servers.session.push.push_delays.Lacking`.
        timed: version of the push whose receipt is waited for, to see how long it takes; 0: none. ``timed_at``: when
            it was sent.
    """

    __slots__ = (
        "_group",
        "behind_since",
        "client",
        "in_flight",
        "known",
        "parted",
        "sent",
        "timed",
        "timed_at",
        "version",
        "whole",
    )

    def __init__(self, client: ConnectedClient, known: tuple[int, int], group: PushedService) -> None:
        self.client, self.known, self._group = client, known, group
        self.version = NO_VERSION
        self.in_flight: list[int] = []
        self.whole = NO_VERSION
        self.parted: PushFrames | None = None
        self.sent = 0
        self.behind_since: float | None = None
        self.timed = NO_VERSION
        self.timed_at = 0.0

    @property
    def service(self) -> str:
        """The data info id."""
        return self._group.data_info_id

    @property
    def why_behind(self) -> str:
        """Why it was not pushed to, for people."""
        return self._group.why_behind(self)
