"""Faults of processes as a whole: servers and the database are killed, frozen, restarted, or cannot write."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable

from slotreeve.model.nodes import Role

from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_chaos.targets import ROLES, ChaosTargets

DOWN_SECONDS = (0.0, 3.0)
PROCESSES = (*ROLES, Role.GATEWAY)


class ServerFaults:
    """Kills, pauses and restarts of servers."""

    def __init__(self, targets: ChaosTargets) -> None:
        self._targets = targets

    def kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Every kind, by name."""
        return {
            **{f"kill {role}": lambda role=role: self.kill(role) for role in PROCESSES},  # type: ignore[misc]
            "kill meta and its disk": self._kill_with_disk,
            "full disk": self._fill_disk,
            "kill two at once": self._kill_two,
            **{f"pause {role}": lambda role=role: self._pause(role) for role in PROCESSES},  # type: ignore[misc]
            "restart in order": self._restart,
        }

    async def kill(self, role: Role) -> None:
        """SIGKILL one server of this role, and start it again."""
        victim = self._targets.victim(role)
        with self._targets.recorder.fault(f"kill {role}", victim.name):
            victim.kill()
            await self._stay_down()
            victim.start()

    async def _stay_down(self) -> None:
        await asyncio.sleep(self._targets.rng.uniform(*DOWN_SECONDS))

    async def _kill_two(self) -> None:
        """Of different roles: two of three meta servers would be a lost quorum, two data servers both copies."""
        victims = [self._targets.victim(role) for role in self._targets.rng.sample(ROLES, 2)]
        with self._targets.recorder.fault("kill two at once", " ".join(victim.name for victim in victims)):
            for victim in victims:
                victim.kill()
            await self._stay_down()
            for victim in victims:
                victim.start()

    async def _kill_with_disk(self) -> None:
        victim = self._targets.victim(Role.META)
        with self._targets.recorder.fault("kill meta and its disk", victim.name):
            victim.kill()
            shutil.rmtree(self._targets.cluster.directory / f"{victim.name}.state", ignore_errors=True)
            await self._stay_down()
            victim.start()

    async def _fill_disk(self) -> None:
        """A meta server cannot write while there is something to write: a data server dies and comes back."""
        victim, dying = self._targets.victim(Role.META), self._targets.victim(Role.DATA)
        with self._targets.recorder.fault("full disk", victim.name):
            victim.fill_disk()
            dying.kill()
            await asyncio.sleep(self._targets.short_seconds())
            dying.start()
            if victim.is_running:
                victim.free_disk()
            else:
                victim.start()

    async def _pause(self, role: Role) -> None:
        victim, seconds = self._targets.victim(role), self._targets.lease_time()
        with self._targets.recorder.fault(f"pause {role}", f"{victim.name} {seconds:g} s"):
            victim.pause()
            try:
                await asyncio.sleep(seconds)
            finally:
                victim.resume()

    async def _restart(self) -> None:
        victim = self._targets.victim()
        with self._targets.recorder.fault("restart in order", victim.name):
            await asyncio.get_running_loop().run_in_executor(None, victim.stop)
            victim.start()


class DatabaseFaults:
    """Kills, pauses and restarts of the database server whose lock elects the meta leader."""

    def __init__(self, targets: ChaosTargets, database: SqlServer) -> None:
        self._targets, self._database = targets, database

    def kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Every kind, by name."""
        return {
            "kill database": lambda: self._end("kill database", self._database.kill),
            "restart database": lambda: self._end("restart database", self._database.stop),
            "pause database": self._pause,
        }

    async def _end(self, what: str, end: Callable[[], None]) -> None:
        with self._targets.recorder.fault(what, self._database.address):
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, end)
            await asyncio.sleep(self._targets.rng.uniform(*DOWN_SECONDS))
            await loop.run_in_executor(None, self._database.start)

    async def _pause(self) -> None:
        seconds = self._targets.lease_time()
        with self._targets.recorder.fault("pause database", f"{self._database.address} {seconds:g} s"):
            self._database.pause()
            try:
                await asyncio.sleep(seconds)
            finally:
                self._database.resume()
