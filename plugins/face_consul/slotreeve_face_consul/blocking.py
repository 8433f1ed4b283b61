"""Blocking queries: callers that wait for a change."""

from __future__ import annotations

import random

from slotreeve_face_consul.queries import ConsulQuery

JITTER = 16
"""As with Consul, up to a sixteenth of the wait is added to it, so that callers do not come back all at once."""


def wait_seconds(query: ConsulQuery, rng: random.Random) -> float:
    """How long a blocking query waits at most, with jitter."""
    return query.wait_seconds * (1 + rng.random() / JITTER)
