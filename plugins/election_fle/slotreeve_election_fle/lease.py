"""Leases: how long a leader may act on its own, and how long its followers keep their promise. Pure.

docs/fle.md, R6.

The leader counts from before it *sent* the ping that a quorum answered; a follower counts from its *receipt*, which
is later, and a little longer (:data:`DRIFT`), so that the follower's promise outlasts the leader's lease on clocks
that run at slightly different speeds. No clock of one machine is ever compared with another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotreeve_election_fle.quorum import Quorum

DRIFT = 1.02
"""Followers wait this much longer than the lease: clocks may differ in speed by up to 2 %."""


def renewed_at(quorum: Quorum, leader: int, answered: Mapping[int, float]) -> float | None:
    """The newest moment at which pings had been sent that a quorum, the leader included, has answered.

    ``answered``: by follower, when the newest ping it answered was sent. None where no quorum has answered; infinity
    where the leader is a quorum by itself.
    """
    counted = {leader}
    if quorum.contains(counted):
        return float("inf")
    for sid, sent in sorted(answered.items(), key=lambda item: -item[1]):
        counted.add(sid)
        if quorum.contains(counted):
            return sent
    return None


class Promise:
    """A voter's promise not to help another server to lead while a leader may hold a lease that rests on it.

    It ends with time, or earlier, once every possible holder is known not to lead any more: its process is dead, or it
    has reported so itself. That the connection to it has ended is not enough: it may not have noticed yet.
    """

    def __init__(self) -> None:
        self._holders: set[int] = set()
        self._until = 0.0

    def bind(self, holders: Iterable[int], until: float) -> None:
        """From now until ``until`` only one of ``holders`` may be helped."""
        self._holders = set(holders)
        self._until = until

    def holds(self, sid: int) -> bool:
        """Whether ``sid`` may hold a lease."""
        return sid in self._holders

    def release(self, sid: int) -> None:
        """``sid`` holds no lease any more."""
        self._holders.discard(sid)

    def free_at(self, candidate: int) -> float:
        """From when on ``candidate`` may be helped; 0 where nothing stands in the way."""
        return self._until if self._holders - {candidate} else 0.0
