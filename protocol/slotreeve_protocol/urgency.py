"""The messages that overtake others in a queue, so that a long queue does not look like the end of a process."""

from __future__ import annotations

from slotreeve.ports import Message

from slotreeve_protocol.client_messages import Pong, Published, PushesReceived, Redirect, Rejected, Sessions
from slotreeve_protocol.general_messages import Done, Ping
from slotreeve_protocol.meta_messages import Heartbeat, LeaderIs, LeaseGranted
from slotreeve_protocol.slot_messages import Presence

URGENT: frozenset[type[Message]] = frozenset(
    {
        # They show that the sender lives, and who leads. Views and terms have numbers, and only higher ones are taken.
        Heartbeat,
        LeaseGranted,
        LeaderIs,
        Ping,
        Done,
        Pong,
        # A client arrives before its records are sent, and has arrived after the last one was acknowledged.
        Presence,
        # They name versions of what was received before. All are in one lane, so a rejection and the acknowledgement
        # after it keep their order.
        Published,
        Rejected,
        PushesReceived,
        # Where else to connect; the newest one counts.
        Sessions,
        Redirect,
    }
)
"""No receiver relies on the order of one of these relative to a message that is not among them."""
