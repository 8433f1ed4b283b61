"""What a client counted, for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClientStatistics:
    """What a client counted since it was made.

    Attributes:
        reconnections: number of times that a session server admitted it after the first one, moves included.
        unacknowledged: records that wait to be sent or acknowledged now.
        unconfirmed: subscriptions that the session server has not confirmed, so that their copies may be stale.
        rejected: records that a session server had no room for, and that were sent again after a pause.
        callbacks_waiting: callbacks that wait for their turn now.
        callback_failures: callbacks that raised an exception.
        longest_callback_seconds: how long the slowest callback took.
    """

    reconnections: int
    unacknowledged: int
    unconfirmed: int
    rejected: int
    callbacks_waiting: int
    callback_failures: int
    longest_callback_seconds: float
