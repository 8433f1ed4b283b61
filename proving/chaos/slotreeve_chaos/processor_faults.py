"""Faults of the processor: other programs beside the cluster, all servers on one core, a server that hardly runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from slotreeve.model.nodes import Role

from slotreeve_chaos.processor import busy_loops, duty_cycle, pinned
from slotreeve_chaos.server_faults import ServerFaults
from slotreeve_chaos.targets import ROLES, ChaosTargets

LOOPS = (2, 4, 8)
SHARES = (0.05, 0.5)
BUSY_SECONDS = (5.0, 10.0)
LONGEST_SECONDS = 120.0


class ProcessorFaults:
    """Busy loops, pinning and duty cycles. During the first two a server may be killed, as in a herd beside others."""

    def __init__(self, targets: ChaosTargets, servers: ServerFaults) -> None:
        self._targets, self._servers = targets, servers

    def kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Every kind, by name."""
        return {
            "busy loops": self._busy_loops,
            "one core": self._one_core,
            **{f"duty cycle {role}": lambda role=role: self._duty_cycle(role) for role in ROLES},  # type: ignore[misc]
        }

    async def _busy_loops(self) -> None:
        count, seconds = self._targets.rng.choice(LOOPS), self._targets.rng.uniform(*BUSY_SECONDS)
        with (
            self._targets.recorder.fault("busy loops", f"{count} for {seconds:.1f} s"),
            busy_loops(count, LONGEST_SECONDS),
        ):
            await asyncio.gather(asyncio.sleep(seconds), self._strike())

    async def _one_core(self) -> None:
        """All servers on one core, beside up to two busy loops there."""
        count, seconds = self._targets.rng.randrange(3), self._targets.rng.uniform(*BUSY_SECONDS)
        servers = self._targets.cluster.servers.values()
        with (
            self._targets.recorder.fault("one core", f"beside {count} busy loops for {seconds:.1f} s"),
            busy_loops(count, LONGEST_SECONDS) as loops,
            pinned([*(server.pid for server in servers if server.is_running), *(loop.pid for loop in loops)]),
        ):
            await asyncio.gather(asyncio.sleep(seconds), self._strike())

    async def _duty_cycle(self, role: Role) -> None:
        victim, share = self._targets.victim(role), self._targets.rng.uniform(*SHARES)
        seconds = self._targets.rng.uniform(*BUSY_SECONDS)
        with self._targets.recorder.fault(f"duty cycle {role}", f"{victim.name} {share:.0%} for {seconds:.1f} s"):
            await duty_cycle(victim, share, seconds)

    async def _strike(self) -> None:
        role = self._targets.rng.choice([None, Role.SESSION, Role.DATA])
        if role is not None:
            await self._servers.kill(role)
