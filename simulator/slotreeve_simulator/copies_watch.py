"""Checks of the copies of slots at each instant: a complete one leads, and none is given up too early (I16)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from slotreeve_servers.data.slots import HeldSlot
from slotreeve_servers.node.membership import LEASE_HEARTBEATS

from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.verdict import RunVerdict

NOTICED_SECONDS = 1.0
"""Within this time the meta leader gives up a data server whose connection has ended. Until then it counts on the
copies that died with the server."""


@dataclass(eq=False)
class _Copy:
    """A copy of a slot that is or was complete: in sync with the leader from ``since`` until ``until``."""

    since: float
    until: float


class CopiesWatch:
    """The complete copies of slots, by server and slot.

    Args:
        heartbeat_seconds: interval of the heartbeats by which the meta leader knows of complete copies.
        replicas: copies of a slot that the cluster should have.
    """

    def __init__(
        self,
        heartbeat_seconds: float,
        replicas: int,
        servers: ServersWatch,
        now: Callable[[], float],
        verdict: RunVerdict,
    ) -> None:
        self._heartbeat_seconds, self._replicas = heartbeat_seconds, replicas
        self._moment = LEASE_HEARTBEATS * heartbeat_seconds
        self._servers, self._now, self._verdict = servers, now, verdict
        self._copies: dict[int, dict[str, _Copy]] = {}
        self._died: dict[int, list[float]] = {}
        self._led: dict[int, int] = {}
        self._looked_at: dict[int, float] = {}

    def leader_epoch(self, number: int) -> int:
        """The highest leader epoch under which a server has led the slot."""
        return self._led.get(number, 0)

    def look(self, number: int, held: Mapping[str, HeldSlot], living: Collection[str]) -> bool:
        """Check one slot, which these of the ``living`` data servers hold. Returns whether all complete copies of it
        were lost together: then a server leads that has none."""
        copies, now, before = self._copies.setdefault(number, {}), self._now(), self._looked_at.get(number, 0.0)
        lost = False
        for name, slot in held.items():
            if slot.leads and slot.slot.leader_epoch > self.leader_epoch(number):
                self._led[number] = slot.slot.leader_epoch
                # Between two looks it may have been complete, which only it has noted.
                if name not in copies and slot.complete_until == -math.inf:
                    self._check_choice(name, slot.slot.followers, number)
                    lost = True
            if slot.synced or slot.leads:
                copy = copies.get(name)
                if copy is None or copy.until < before:
                    copy = copies[name] = _Copy(now, now)
                copy.until = now
        complete = [name for name, copy in copies.items() if copy.until >= before]
        # Under a new leader each follower compares its copy anew. It was complete a moment ago, and counts until then.
        left = [name for name, copy in copies.items() if name in held and copy.until > now - self._moment]
        gone = [name for name in copies if name not in held]
        for name in gone:
            del copies[name]
        # Deaths first: a copy that is dropped in the same instant was dropped while the others lived.
        lost_now = [name for name in gone if name in complete]
        self._died.setdefault(number, []).extend(now for name in lost_now if name not in living)
        for name in lost_now:
            if name in living:
                self._check_drop(name, number, left)
        self._looked_at[number] = now
        return lost

    def _check_choice(self, leader: str, followers: Collection[str], number: int) -> None:
        """Check that none was passed over for this leader without a complete copy: none that was in sync until a
        moment ago, and for so long that the meta leader knew of it by a heartbeat."""
        known, moment = 2 * self._heartbeat_seconds, self._moment
        for name in followers:
            copy = self._copies[number].get(name)
            if copy is not None and copy.until - copy.since > known and copy.until > self._now() - moment:
                age = self._now() - copy.until
                self._verdict.violate(
                    "I16", f"{leader} leads slot {number} without a complete copy; {name} had one {age:.3f} s ago"
                )

    def _check_drop(self, name: str, number: int, left: list[str]) -> None:
        """Check that where a living server drops a complete copy there are others, not only the leader's. One that is
        cut off may learn late that it was given up. While one leaves for good, its followers are replaced at once."""
        if self._servers.somebody_leaves or self._servers.was_given_up(name, number):
            return
        unnoticed = [end for end in self._died.get(number, ()) if end > self._now() - NOTICED_SECONDS]
        if len(left) + len(unnoticed) < min(2, self._replicas):
            self._verdict.violate("I16", f"{name} drops its copy of slot {number}; complete ones are left at {left}")
