"""A simulated cluster on the time of a registry under test, in an event loop that it shares with the test."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Mapping

from slotreeve.catalogue import build_plugin
from slotreeve.errors import RequestTimeout
from slotreeve.offers import Port
from slotreeve.ports import Context, Transport
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_harness.free_ports import PORTS, STRIDE, PortClaims
from slotreeve_simulator.process_clock import ProcessClock
from slotreeve_simulator.simulated_cluster import POLL_SECONDS, SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

from slotreeve_testing.doors import Door, TransportWithDoor
from slotreeve_testing.timeline import ProcessPlace, Timeline
from slotreeve_testing.watching import RegistryWatch

BACK_SECONDS = 2.0


class StagedCluster(SimulatedCluster):
    """The servers of a registry under test, and the clients that live on its time.

    Args:
        counts: how many servers of each role: ``meta``, ``data``, ``session``.
        settings: of all servers, with dotted keys.
        seed: of all chance.
        timeline: the time.
        watch: told of what fails in servers.
        has_doors: whether programs outside reach the session servers.
    """

    def __init__(
        self,
        counts: Mapping[str, int],
        settings: Mapping[str, object],
        seed: int,
        timeline: Timeline,
        watch: RegistryWatch,
        has_doors: bool,
    ) -> None:
        self._timeline, self._watch, self._has_doors = timeline, watch, has_doors
        self._doors: dict[str, Door] = {}
        self._used_doors: list[Door] = []
        self._claims = PortClaims()
        super().__init__(random.Random(seed), counts["meta"], counts["data"], counts["session"], settings)
        timeline.while_skipping = self._keep_outsiders_awake

    # --- as SimulatedProcesses -----------------------------------------------------------------------------------

    def address(self, name: str) -> str:
        """See SimulatedProcesses. With doors, the address of a session server is a free one of this machine."""
        if self._has_doors and name.startswith("session-") and name not in self._addresses:
            chance = random.Random()
            while not self._claims.take(port := chance.randrange(PORTS.start, PORTS.stop, STRIDE)):
                pass
            self._addresses[name] = f"127.0.0.1:{port}"
        return super().address(name)

    def process_clock(self, name: str, wall_skew_ms: int = 0) -> ProcessClock:
        """See SimulatedProcesses."""
        is_server = name in self._addresses or name.startswith("gateway-")
        if is_server:
            place = ProcessPlace(self._timeline, self._watch.context, self._watch.failed)
        else:
            place = ProcessPlace(self._timeline, contextvars.copy_context(), None)
        clock = self._clocks[name] = ProcessClock(wall_skew_ms, loop=place)
        return clock

    def transport(self, name: str, of: str = "") -> MemoryTransport:
        """See SimulatedProcesses."""
        inside = super().transport(name, of)
        if not (self._has_doors and name.startswith("session-")):
            return inside
        # It outlives the process: a killed one closes no socket.
        clock = VirtualClock(ProcessPlace(self._timeline, self._watch.context, self._watch.failed))
        sockets = build_plugin(Port.TRANSPORT, "zmq", Context("slotreeve", 0, clock, self.rng))
        assert isinstance(sockets, Transport)
        door = self._doors[name] = Door(sockets)
        self._used_doors.append(door)
        return TransportWithDoor(inside, door)  # type: ignore[return-value]  # its users need a Transport

    async def until(
        self, condition: Callable[[], object], what: str, seconds: float = 30.0, poll_seconds: float = POLL_SECONDS
    ) -> float:
        """See SimulatedCluster. The time passes at once."""
        began = self._timeline.time()
        while not condition():
            if self._timeline.time() - began > seconds:
                raise RequestTimeout(f"not within {seconds:g} s of the registry: {what}")
            await self._timeline.skip()
        return self._timeline.time() - began

    def freeze(self, name: str) -> None:
        """See SimulatedProcesses."""
        super().freeze(name)
        if name in self._doors:
            self._doors[name].freeze()

    def thaw(self, name: str) -> None:
        """See SimulatedProcesses."""
        super().thaw(name)
        if name in self._doors:
            self._doors[name].thaw()

    def kill(self, name: str, power_lost: bool = False) -> None:
        """See SimulatedProcesses. Where it has a door, :meth:`close_door` must follow."""
        super().kill(name, power_lost)
        if name in self._doors:
            self._doors[name].kill()

    @property
    def flags(self) -> Mapping[str, object]:
        """The settings that all servers have in common, with dotted keys."""
        return self._settings

    # --- beyond -------------------------------------------------------------------------------------------------

    def outsiders(self, name: str) -> set[str]:
        """The ids of the clients outside that are connected to a session server."""
        return self._doors[name].clients if name in self._doors else set()

    async def outsiders_are_back(self, clients: set[str]) -> None:
        """Wait until these are connected to any session server, at the pace of the wall: their time is real, and what
        they registered would end if time was skipped meanwhile. It is given up after :data:`BACK_SECONDS`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + BACK_SECONDS
        while self._doors and loop.time() < end:
            if clients <= {client for door in self._doors.values() for client in door.clients}:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def close_door(self, name: str) -> None:
        """Programs outside see their connections to a killed server end."""
        door = self._doors.pop(name, None)
        if door is not None:
            await door.close()
            self._used_doors.remove(door)

    async def close_doors(self) -> None:
        """Close all sockets."""
        for door in [*self._used_doors]:
            await door.close()
        self._used_doors.clear()
        self._claims.close()

    def _keep_outsiders_awake(self) -> None:
        for door in self._doors.values():
            door.stay_awake(self._timeline.time())
