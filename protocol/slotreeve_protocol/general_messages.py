"""Messages between any two processes.

Imperatives (``Publish``) ask for something; past events (``Changed``) say that something happened. All are tagged
arrays: a field may be added at the end with a default, and is never removed or reordered (``golden/frames.json``).
Each docstring says which process sends the message to which; ``?`` marks a request and names its reply.
"""

from __future__ import annotations

from slotreeve.ports import Message


class Goodbye(Message, frozen=True, tag=2):
    """Either end, last: why I refuse or end this connection."""

    reason: str


class Failed(Message, frozen=True, tag=3):
    """Reply to any request that cannot be carried out: an error's ``code`` and message."""

    code: str
    reason: str


class Done(Message, frozen=True, tag=4):
    """Reply: carried out, nothing more to say."""


class Ping(Message, frozen=True, tag=5):
    """? Done. Are you there; renews the sender's lease."""


class GetCounters(Message, frozen=True, tag=7):
    """Anybody to any server, ? Counters."""


class Counters(Message, frozen=True, tag=8):
    """Reply: what the server counted since its start, and what it holds, by name."""

    values: dict[str, int]


class Opaque(Message, frozen=True, tag=6):
    """Between two copies of one plugin: bytes that only they understand."""

    topic: str
    body: bytes
