"""Faults that wait for a state of the cluster, and the count of what struck in which state."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.states import ClusterState, among, states_of

LOOK_EVERY_SECONDS = 0.003
AIM_SECONDS = 10.0
"""A fault waits at most so long for its state, and then strikes in whatever state the cluster is."""

Struck = Counter[tuple[FaultKind, ClusterState]]
"""How many faults of each kind began in each state."""


class Aims:
    """The faults of one run that wait. ``strike`` begins a fault, and returns whether it was possible. One that was
    not goes on waiting: the other fault of its kind, or whatever is in its way, may end before the state does.

    Attributes:
        struck: what struck so far.
    """

    def __init__(self, cluster: SimulatedCluster, strike: Callable[[Fault], bool]) -> None:
        self._cluster, self._strike = cluster, strike
        self._waiting: dict[Fault, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.struck: Struck = Counter()

    def begin(self, fault: Fault) -> None:
        """Begin a fault now, or as soon as the cluster is in the state that the fault is aimed at."""
        if fault.aimed_at is None:
            self._begin(fault, states_of(self._cluster))
            return
        loop = asyncio.get_running_loop()
        self._waiting[fault] = loop.time() + AIM_SECONDS
        if self._timer is None:
            self._look()

    def stop(self) -> None:
        """Begin nothing more of what waits."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        awaited = {fault.aimed_at for fault in self._waiting if fault.aimed_at is not None}
        if (
            ClusterState.QUIET in awaited
            or any(now >= until for until in self._waiting.values())
            or among(self._cluster, sorted(awaited))
        ):
            self._strike_what_fits(now)
        self._timer = loop.call_later(LOOK_EVERY_SECONDS, self._look) if self._waiting else None

    def _strike_what_fits(self, now: float) -> None:
        states = states_of(self._cluster)
        for fault, until in list(self._waiting.items()):
            is_over = now >= until
            if (fault.aimed_at in states or is_over) and (self._begin(fault, states) or is_over):
                del self._waiting[fault]
                states = states_of(self._cluster)

    def _begin(self, fault: Fault, states: list[ClusterState]) -> bool:
        has_struck = self._strike(fault)
        if has_struck:
            self.struck.update((fault.kind, state) for state in states)
        return has_struck
