"""Tolerances: the clients whose registrations may disappear because of a fault, and until when.

A registration lasts as long as the leases of its client and of its session server. A fault that pauses a client or cuts
off a session server may end one of them. Until the cluster has recovered, the disappearance of a registration is then
no violation. No tolerance follows from a fault of data servers only, of a minority of the meta servers only, from the
loss of a client's connection, or from the loss of one session server alone.
"""

from __future__ import annotations

from collections.abc import Callable

from slotreeve_simulator.plan import Fault
from slotreeve_simulator.scenario import FaultKind

AFTERWARDS_SECONDS = 18.0
"""A client's lease and the time until its records are removed; or a session server's lease and its records' grace."""
LOSSES = frozenset({FaultKind.CRASH_SESSION, FaultKind.STOP_SERVER, FaultKind.CLOCK_JUMP})
NETWORK = frozenset({FaultKind.PARTITION, FaultKind.PARTITION_ONE_WAY})


class Tolerances:
    """The tolerances of a run. ``now`` returns the virtual seconds since its start; ``metas`` is the number of meta
    servers."""

    def __init__(self, now: Callable[[], float], metas: int) -> None:
        self._now, self._metas = now, metas
        self._until = 0.0
        self._clients: dict[str, float] = {}
        self._busy_until = 0.0
        self._loss_until = 0.0

    def begins(self, fault: Fault) -> None:
        """A fault begins."""
        now, until = self._now(), self._now() + fault.seconds + AFTERWARDS_SECONDS
        is_loss = fault.kind in LOSSES and fault.first[0].startswith("session-")
        if fault.kind is FaultKind.PAUSE_CLIENT:
            self._clients[fault.first[0]] = max(until, self._clients.get(fault.first[0], 0.0))
        if self._may_end_registrations(fault) or now < self._loss_until or (is_loss and now < self._busy_until):
            self._until = max(self._until, until)
        if is_loss:
            self._loss_until = max(self._loss_until, until)
        self._busy_until = max(self._busy_until, until)

    def recovered(self) -> None:
        """All faults have ended and the cluster has settled: end every tolerance."""
        self._until = self._busy_until = self._loss_until = 0.0
        self._clients.clear()

    def tolerates(self, client: str) -> bool:
        """Whether registrations of ``client`` may be missing, or may be seen in an old state or after their end."""
        now = self._now()
        return now < self._until or now < self._clients.get(client, 0.0)

    def _may_end_registrations(self, fault: Fault) -> bool:
        if fault.kind in NETWORK:
            metas = sum(name.startswith("meta-") for name in fault.first)
            return 2 * metas >= self._metas or any(_holds_registrations(name) for name in fault.first)
        if fault.kind in (FaultKind.PAUSE, FaultKind.SLOW):
            return _holds_registrations(fault.first[0])
        return False


def _holds_registrations(name: str) -> bool:
    return name.startswith(("session-", "client-"))
