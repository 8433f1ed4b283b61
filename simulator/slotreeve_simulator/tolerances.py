"""For whom the promises about what subscribers see are suspended, and until when.

A registration lives as long as its client's lease and its session server's. Where a fault may rightly end one of them
- a paused client, a session server that nobody reaches - its disappearance is no violation until everything is well
again. Whatever strikes only data servers or a minority of the meta servers excuses nothing, nor does the loss of a
client's connection, nor by itself the loss of a session server.
"""

from __future__ import annotations

from collections.abc import Callable

from slotreeve_simulator.plan import Fault
from slotreeve_simulator.scenario import FaultKind

AFTERWARDS_SECONDS = 18.0
"""A client's lease, then its records' way out; or a session server's lease and its records' grace."""
LOSSES = frozenset({FaultKind.CRASH_SESSION, FaultKind.STOP_SERVER, FaultKind.CLOCK_JUMP})
NETWORK = frozenset({FaultKind.PARTITION, FaultKind.PARTITION_ONE_WAY})


class Tolerances:
    """Counts what is going on. ``now`` tells the virtual seconds since the run began; ``metas`` are how many."""

    def __init__(self, now: Callable[[], float], metas: int) -> None:
        self._now, self._metas = now, metas
        self._until = 0.0
        self._clients: dict[str, float] = {}
        self._busy_until = 0.0
        self._loss_until = 0.0

    def begins(self, fault: Fault) -> None:
        """A fault strikes."""
        now, until = self._now(), self._now() + fault.seconds + AFTERWARDS_SECONDS
        is_loss = fault.kind in LOSSES and fault.first[0].startswith("session-")
        if fault.kind is FaultKind.PAUSE_CLIENT:
            self._clients[fault.first[0]] = max(until, self._clients.get(fault.first[0], 0.0))
        if self._is_grave(fault) or now < self._loss_until or (is_loss and now < self._busy_until):
            self._until = max(self._until, until)
        if is_loss:
            self._loss_until = max(self._loss_until, until)
        self._busy_until = max(self._busy_until, until)

    def all_is_well(self) -> None:
        """Everything was mended and has settled."""
        self._until = self._busy_until = self._loss_until = 0.0
        self._clients.clear()

    def excused(self, client: str) -> bool:
        """True while registrations of ``client`` may be gone for a while, or seen as they were, or after their end."""
        now = self._now()
        return now < self._until or now < self._clients.get(client, 0.0)

    def _is_grave(self, fault: Fault) -> bool:
        if fault.kind in NETWORK:
            metas = sum(name.startswith("meta-") for name in fault.first)
            return 2 * metas >= self._metas or any(_holds_registrations(name) for name in fault.first)
        if fault.kind in (FaultKind.PAUSE, FaultKind.SLOW):
            return _holds_registrations(fault.first[0])
        return False


def _holds_registrations(name: str) -> bool:
    return name.startswith(("session-", "client-"))
