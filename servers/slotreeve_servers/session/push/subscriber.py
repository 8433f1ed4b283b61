"""One client's subscription to one service under one scope."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slotreeve.model.datum import NO_VERSION

from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.push.push_frames import PushFrames

if TYPE_CHECKING:
    from slotreeve_servers.session.push.push import PushGroup


@dataclass(eq=False, slots=True, repr=False)
class Subscriber:
    """What one client has of one service.

    Attributes:
        version: version of the last push that was sent to it.
        in_flight: versions of the pushes whose receipt has not arrived, in order.
        whole: version of the last push that carried the whole service.
        known: version and digest of the copy that the client had when it subscribed, until the first push.
        parted: the push whose parts are on their way. ``sent``: number of its parts that were sent.
        behind_since: the birth of the oldest change that it lacks, on the server's clock; None: it lacks none.
        timed: version of the push whose receipt is waited for, to see how long it takes; 0: none. ``timed_at``: when
            it was sent.
    """

    client: ConnectedClient
    known: tuple[int, int]
    group: PushGroup
    version: int = NO_VERSION
    in_flight: list[int] = field(default_factory=list)
    whole: int = NO_VERSION
    parted: PushFrames | None = None
    sent: int = 0
    behind_since: float | None = None
    timed: int = NO_VERSION
    timed_at: float = 0.0
