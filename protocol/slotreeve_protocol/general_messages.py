"""Messages between any two processes.

A message named by an imperative (``Publish``) requests something; one named by a past event (``Changed``) reports it.
All are tagged arrays: a field may be added at the end with a default, and is never removed or reordered. Golden frames
(``tests/protocol/golden/frames.json``) check that.

Each docstring begins with the sender and the receiver. A request names its replies after ``Reply:``. A message that is
only a reply begins with ``Reply``.
"""

from __future__ import annotations

from slotreeve.ports import Message


class Goodbye(Message, frozen=True, tag=2):
    """Either end to the other, as its last message: the reason why it refuses or ends the connection."""

    reason: str


class Failed(Message, frozen=True, tag=3):
    """Reply to any request that cannot be carried out: the error's ``code`` and message."""

    code: str
    reason: str


class Done(Message, frozen=True, tag=4):
    """Reply: the request was carried out."""


class Ping(Message, frozen=True, tag=5):
    """Client to session, or any process to a server: check that the receiver answers. A client's ping also renews its
    lease, and tells how late its callbacks were lately, and how long it may wait before it connects again if the
    connection ends now. Reply: Done, or Pong to a client."""

    late_seconds: float = 0.0
    pause_seconds: float = 0.0


class GetCounters(Message, frozen=True, tag=7):
    """Any process to a server: return your counters. Reply: Counters."""


class Counters(Message, frozen=True, tag=8):
    """Reply to GetCounters: what the server counted since its start, and what it holds, by name."""

    values: dict[str, int]


class Opaque(Message, frozen=True, tag=6):
    """A plugin to the same plugin in another process: bytes that only that plugin understands."""

    topic: str
    body: bytes
