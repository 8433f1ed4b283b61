"""The faults of a cluster of real processes: every kind by its name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from slotreeve_chaos.network_faults import LinkFaults, ServerConnectionFaults
from slotreeve_chaos.processor_faults import ProcessorFaults
from slotreeve_chaos.proxy import Proxy
from slotreeve_chaos.server_faults import DatabaseFaults, ServerFaults
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_chaos.targets import ChaosTargets
from slotreeve_chaos.workload import ChaosWorkload


class ChaosFaults:
    """Each fault is a coroutine that begins, lasts, ends and is recorded. There is one at a time, but beside busy
    loops and on one core a server may be killed as well."""

    def __init__(
        self,
        targets: ChaosTargets,
        proxies: Mapping[str, Sequence[Proxy]],
        workload: ChaosWorkload,
        database: SqlServer | None = None,
    ) -> None:
        self._targets, self._workload = targets, workload
        servers = ServerFaults(targets)
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            **servers.kinds(),
            **ServerConnectionFaults(targets, proxies).kinds(),
            **LinkFaults(targets, proxies).kinds(),
            **ProcessorFaults(targets, servers).kinds(),
            "kill client": self._kill_client,
        }
        if database is not None:
            del self.kinds["kill meta and its disk"], self.kinds["full disk"]
            self.kinds |= DatabaseFaults(targets, database).kinds()

    async def commit(self, what: str) -> None:
        """Carry out one kind of fault, from its beginning to its end."""
        await self.kinds[what]()

    async def _kill_client(self) -> None:
        with self._targets.recorder.fault("kill client", "provider"):
            provider = await self._workload.start_provider()
            await asyncio.sleep(1.0)
            await provider.kill()
