"""The faults of a cluster of real processes: how each begins and ends."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable

from slotreeve.model.nodes import Role
from slotreeve_harness.processes import LocalCluster, ServerProcess
from slotreeve_harness.sql_servers import SqlServer

from slotreeve_chaos.history import HistoryRecorder
from slotreeve_chaos.proxy import Proxy
from slotreeve_chaos.workload import ChaosWorkload

LEASE_MULTIPLES = (0.5, 1.0, 2.0, 5.0)
STALL_SECONDS = (0.5, 3.0)


class ChaosFaults:
    """Each fault is a coroutine that begins, lasts, ends and is recorded. There is one at a time."""

    def __init__(
        self,
        cluster: LocalCluster,
        proxies: dict[str, list[Proxy]],
        workload: ChaosWorkload,
        recorder: HistoryRecorder,
        rng: random.Random,
        lease_seconds: float,
        database: SqlServer | None = None,
    ) -> None:
        self._cluster, self._proxies, self._workload = cluster, proxies, workload
        self._recorder, self._rng, self._lease_seconds = recorder, rng, lease_seconds
        self._database = database
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill meta": lambda: self._kill(Role.META),
            "kill data": lambda: self._kill(Role.DATA),
            "kill session": lambda: self._kill(Role.SESSION),
            "kill meta and its disk": self._kill_with_disk,
            "full disk": self._fill_disk,
            "kill two at once": self._kill_two,
            "pause meta": lambda: self._pause(Role.META),
            "pause data": lambda: self._pause(Role.DATA),
            "pause session": lambda: self._pause(Role.SESSION),
            "restart in order": self._restart,
            "reset connections": self._reset,
            "stall both ways": lambda: self._stall(True, True),
            "stall one way": self._stall_one_way,
            "refuse connections": self._refuse,
            "delay": self._delay,
            "throttle": self._throttle,
            "kill client": self._kill_client,
        }
        if database is not None:
            del self.kinds["kill meta and its disk"], self.kinds["full disk"]
            self.kinds["kill database"] = lambda: self._end_database(database, "kill database", database.kill)
            self.kinds["restart database"] = lambda: self._end_database(database, "restart database", database.stop)
            self.kinds["pause database"] = lambda: self._pause_database(database)

    async def commit(self, what: str) -> None:
        """Carry out one kind of fault, from its beginning to its end."""
        await self.kinds[what]()

    def _begin(self, what: str, target: str) -> None:
        self._recorder.append("fault", what=what, target=target, phase="begin")

    def _end(self, what: str, target: str) -> None:
        self._recorder.append("fault", what=what, target=target, phase="end")

    def _victim(self, role: Role | None = None) -> ServerProcess:
        servers = self._cluster.of(role) if role is not None else list(self._cluster.servers.values())
        return self._rng.choice([server for server in servers if server.is_running])

    async def _kill(self, role: Role) -> None:
        victim = self._victim(role)
        self._begin(f"kill {role}", victim.name)
        victim.kill()
        await asyncio.sleep(self._rng.uniform(0.0, 3.0))
        victim.start()
        self._end(f"kill {role}", victim.name)

    async def _kill_two(self) -> None:
        """Of different roles: two of three meta servers would be a lost quorum, two data servers both copies."""
        victims = [self._victim(role) for role in self._rng.sample(list(self._roles()), 2)]
        names = " ".join(victim.name for victim in victims)
        self._begin("kill two at once", names)
        for victim in victims:
            victim.kill()
        await asyncio.sleep(self._rng.uniform(0.0, 3.0))
        for victim in victims:
            victim.start()
        self._end("kill two at once", names)

    @staticmethod
    def _roles() -> tuple[Role, Role, Role]:
        return Role.META, Role.DATA, Role.SESSION

    async def _kill_with_disk(self) -> None:
        victim = self._victim(Role.META)
        self._begin("kill meta and its disk", victim.name)
        victim.kill()
        shutil.rmtree(self._cluster.directory / f"{victim.name}.state", ignore_errors=True)
        await asyncio.sleep(self._rng.uniform(0.0, 3.0))
        victim.start()
        self._end("kill meta and its disk", victim.name)

    async def _fill_disk(self) -> None:
        """A meta server cannot write while there is something to write: a data server dies and comes back."""
        victim, dying = self._victim(Role.META), self._victim(Role.DATA)
        self._begin("full disk", victim.name)
        victim.fill_disk()
        dying.kill()
        await asyncio.sleep(self._rng.uniform(*STALL_SECONDS))
        dying.start()
        if victim.is_running:
            victim.free_disk()
        else:
            victim.start()
        self._end("full disk", victim.name)

    async def _pause(self, role: Role) -> None:
        victim, seconds = self._victim(role), self._rng.choice(LEASE_MULTIPLES) * self._lease_seconds
        self._begin(f"pause {role}", f"{victim.name} {seconds:g} s")
        victim.pause()
        try:
            await asyncio.sleep(seconds)
        finally:
            victim.resume()
        self._end(f"pause {role}", victim.name)

    async def _end_database(self, database: SqlServer, what: str, end: Callable[[], None]) -> None:
        self._begin(what, database.address)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, end)
        await asyncio.sleep(self._rng.uniform(0.0, 3.0))
        await loop.run_in_executor(None, database.start)
        self._end(what, database.address)

    async def _pause_database(self, database: SqlServer) -> None:
        seconds = self._rng.choice(LEASE_MULTIPLES) * self._lease_seconds
        self._begin("pause database", f"{database.address} {seconds:g} s")
        database.pause()
        try:
            await asyncio.sleep(seconds)
        finally:
            database.resume()
        self._end("pause database", database.address)

    async def _restart(self) -> None:
        victim = self._victim()
        self._begin("restart in order", victim.name)
        await asyncio.get_running_loop().run_in_executor(None, victim.stop)
        victim.start()
        self._end("restart in order", victim.name)

    async def _reset(self) -> None:
        victim = self._victim()
        self._begin("reset connections", victim.name)
        for proxy in self._proxies[victim.name]:
            proxy.reset()
        self._end("reset connections", victim.name)

    async def _with_proxies(self, what: str, seconds: float, change: Callable[[Proxy], None]) -> None:
        victim = self._victim()
        self._begin(what, f"{victim.name} {seconds:.1f} s")
        for proxy in self._proxies[victim.name]:
            change(proxy)
        try:
            await asyncio.sleep(seconds)
        finally:
            for proxy in self._proxies[victim.name]:
                proxy.heal()
        self._end(what, victim.name)

    async def _stall(self, to_server: bool, to_client: bool) -> None:
        seconds = self._rng.uniform(*STALL_SECONDS)
        await self._with_proxies("stall both ways", seconds, lambda proxy: proxy.stall(to_server, to_client))

    async def _stall_one_way(self) -> None:
        to_server = self._rng.random() < 0.5
        seconds = self._rng.uniform(*STALL_SECONDS)
        await self._with_proxies("stall one way", seconds, lambda proxy: proxy.stall(to_server, not to_server))

    async def _refuse(self) -> None:
        await self._with_proxies("refuse connections", self._rng.uniform(*STALL_SECONDS), Proxy.refuse)

    async def _delay(self) -> None:
        delay = self._rng.uniform(0.005, 0.1)

        def change(proxy: Proxy) -> None:
            proxy.delay_seconds = delay

        await self._with_proxies("delay", 3.0, change)

    async def _throttle(self) -> None:
        def change(proxy: Proxy) -> None:
            proxy.bytes_per_second = 100_000

        await self._with_proxies("throttle", 3.0, change)

    async def _kill_client(self) -> None:
        self._begin("kill client", "provider")
        provider = await self._workload.start_provider()
        await asyncio.sleep(1.0)
        await provider.kill()
        self._end("kill client", "provider")
