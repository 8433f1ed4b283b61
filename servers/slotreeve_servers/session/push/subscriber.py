"""One client's subscription to one service under one scope."""

from __future__ import annotations

from dataclasses import dataclass, field
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


@dataclass(eq=False, slots=True, repr=False)
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

    client: ConnectedClient
    known: tuple[int, int]
    _group: PushedService
    version: int = NO_VERSION
    in_flight: list[int] = field(default_factory=list)
    whole: int = NO_VERSION
    parted: PushFrames | None = None
    sent: int = 0
    behind_since: float | None = None
    timed: int = NO_VERSION
    timed_at: float = 0.0

    @property
    def service(self) -> str:
        """The data info id."""
        return self._group.data_info_id

    @property
    def why_behind(self) -> str:
        """Why it was not pushed to, for people."""
        return self._group.why_behind(self)
