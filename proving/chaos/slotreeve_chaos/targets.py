"""What the faults of a run strike, and the chance that chooses among it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from slotreeve.model.nodes import Role
from slotreeve_harness.processes import LocalCluster, ServerProcess

from slotreeve_chaos.history import HistoryRecorder

LEASE_MULTIPLES = (0.5, 1.0, 2.0, 5.0)
STALL_SECONDS = (0.5, 3.0)
ROLES = (Role.META, Role.DATA, Role.SESSION)


@dataclass(frozen=True)
class ChaosTargets:
    """The cluster, where faults are recorded, the source of chance, and the lease of a server in seconds."""

    cluster: LocalCluster
    recorder: HistoryRecorder
    rng: random.Random
    lease_seconds: float

    def victim(self, role: Role | None = None) -> ServerProcess:
        """A running server, of this role if one is given, else of any but a gateway, which has no proxies."""
        servers = [server for one in ([role] if role is not None else ROLES) for server in self.cluster.of(one)]
        return self.rng.choice([server for server in servers if server.is_running])

    def short_seconds(self) -> float:
        """A time that most deadlines survive."""
        return self.rng.uniform(*STALL_SECONDS)

    def lease_time(self) -> float:
        """Seconds: half a lease, one, two or five."""
        return self.rng.choice(LEASE_MULTIPLES) * self.lease_seconds
