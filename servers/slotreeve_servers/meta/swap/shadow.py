"""A second election back-end that holds elections of its own and never acts: the rehearsal of a migration.

Its leader need not be the leader in use, because both are chosen freely. So the report compares what users would have
noticed: how often the leader changed, how long there was none, and whether both elections have a leader now.
"""

from __future__ import annotations

import logging

from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError
from slotreeve.ports import Election, Leadership
from slotreeve_protocol.meta_messages import ShadowIs

log = logging.getLogger("slotreeve.shadow")


class _ElectionWatch:
    """The changes of one election, and how long it had no leader."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leaderless_since: float | None = clock.now()
        self._leaderless = 0.0
        self._last = ""
        self.leader: str | None = None
        self.changes = 0

    def changed(self, leadership: Leadership) -> None:
        now = self._clock.now()
        if self._leaderless_since is not None:
            self._leaderless += now - self._leaderless_since
            self._leaderless_since = None
        self.leader = leadership.leader
        if leadership.leader is None:
            self._leaderless_since = now
        elif leadership.leader != self._last:
            self._last = leadership.leader
            self.changes += 1

    @property
    def leaderless_seconds(self) -> float:
        since = self._leaderless_since
        return self._leaderless + (self._clock.now() - since if since is not None else 0.0)


class Shadow:
    """The second back-end ``name`` beside the one in use. Where it fails to start, that is logged and stops nothing."""

    def __init__(self, name: str, election: Election, clock: Clock) -> None:
        self._name, self._election = name, election
        self._real, self._shadow = _ElectionWatch(clock), _ElectionWatch(clock)
        self._failure = ""

    async def start(self) -> None:
        """Take part in the elections of the shadow."""
        try:
            await self._election.start(self._shadow_changed)
        except SlotreeveError as error:
            self._failure = str(error)
            log.error("the shadow election %s cannot take part: %s", self._name, error)

    async def stop(self) -> None:
        """Stop taking part."""
        await self._election.stop()

    def real_changed(self, leadership: Leadership) -> None:
        """The election in use reports a change."""
        self._real.changed(leadership)

    def _shadow_changed(self, leadership: Leadership) -> None:
        leader, term, cause = leadership.leader, leadership.term, leadership.cause
        log.info("the shadow election %s: leader %s, term %d (%s)", self._name, leader, term, cause)
        self._shadow.changed(leadership)

    def report(self) -> ShadowIs:
        """Both, side by side."""
        real, shadow = self._real, self._shadow
        agrees = not self._failure and (real.leader is None) == (shadow.leader is None)
        return ShadowIs(
            self._name,
            agrees,
            self._failure,
            real.leader,
            shadow.leader,
            real.changes,
            shadow.changes,
            real.leaderless_seconds,
            shadow.leaderless_seconds,
        )
