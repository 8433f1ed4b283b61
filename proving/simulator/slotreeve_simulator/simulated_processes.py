"""The processes of a simulated cluster - servers and clients - on the memory transport and virtual time.

The servers and clients are the product's own; its launcher builds them from a configuration. Only network, disks and
time are simulated.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from slotreeve.catalogue import ENTRY_POINT_GROUP, Catalogue
from slotreeve.keys import KeyRing
from slotreeve.model.nodes import Role
from slotreeve.ports.transport import dialled
from slotreeve_client import Client, ClientOptions
from slotreeve_conformance.lossy_storage import LossyStorage
from slotreeve_events.history import ServerHistory
from slotreeve_machines.beside import InTurn
from slotreeve_machines.storage import MemoryStorage
from slotreeve_protocol.meta_messages import Stopping
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_servers.any_server import Server
from slotreeve_servers.launch import Launcher
from slotreeve_servers.settings import Settings, load_settings
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from slotreeve_simulator.process_clock import ProcessClock
from slotreeve_simulator.processor import SimulatedProcessor

FIRST_PORT = 7700


@functools.cache
def _installed_plugins() -> tuple[EntryPoint, ...]:
    """What is installed, read once: all distributions are looked at, and a test makes many clusters."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


class SimulatedProcesses:
    """Servers named ``meta-1``, ``data-1``, ``session-1``, ..., and clients. All random numbers come from ``rng``.

    ``settings`` has dotted keys, as ``--set``. ``limits``: of every connection; together with the setting
    ``node.part_bytes`` they make a small service go in parts.

    Attributes:
        servers: the running servers by name. Each start and each end makes a new mapping, so that whoever keeps
            something by server notices it.
        clients: the running clients by name.
        drifts: drift of a process's clock (:class:`~slotreeve_simulator.process_clock.ProcessClock`) by name, from its
            next start on.
        sync_seconds: how long a sync of a meta server's disk takes, from its first start on.
    """

    def __init__(
        self,
        rng: random.Random,
        meta: int = 3,
        data: int = 3,
        session: int = 2,
        settings: Mapping[str, object] | None = None,
        limits: ChannelLimits | None = None,
    ) -> None:
        self.rng, self._limits = rng, limits
        self.network = MemoryNetwork()
        self.servers: Mapping[str, Server] = {}
        self._clocks: dict[str, ProcessClock] = {}
        self._disks: dict[str, MemoryStorage] = {}
        self.sync_seconds = 0.0
        self.clients: dict[str, Client] = {}
        self.drifts: dict[str, float] = {}
        self._dead: list[object] = []
        self._histories: dict[str, ServerHistory] = {}
        self.catalogue = Catalogue.load(_installed_plugins())
        self._client_numbers = itertools.count(1)
        self._ports = itertools.count(FIRST_PORT, 4)
        self._addresses: dict[str, str] = {}
        for role, count in ((Role.META, meta), (Role.DATA, data), (Role.SESSION, session)):
            for number in range(count):
                self.address(f"{role}-{number + 1}")
        self._settings = {"cluster.slots": 16, "cluster.meta": _of_role(self._addresses, Role.META), **(settings or {})}

    def address(self, name: str) -> str:
        """The address of a server, whether it runs or not."""
        return self._addresses.setdefault(name, f"127.0.0.1:{next(self._ports)}")

    @property
    def names(self) -> list[str]:
        """Names of all servers that have an address, in the order in which they start."""
        return list(self._addresses)

    @property
    def settings(self) -> Settings:
        """The settings that all servers have in common."""
        return load_settings(None, {}, self._settings).settings

    # --- processes -----------------------------------------------------------------------------------------------

    async def start(self, name: str, wall_skew_ms: int = 0, **settings: object) -> Server:
        """Start a server. After :meth:`kill` it has the disk from before.

        A data or session server may have any new name that starts with its role. ``settings`` are its own, with
        ``__`` for the dots; ``wall_skew_ms`` sets its wall clock wrong.
        """
        role = Role(name.partition("-")[0])
        flags = {
            **self._settings,
            "node.name": name,
            "node.advertise": self.address(name),
            "election.fle.data_dir": name,
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        clock = self.process_clock(name, wall_skew_ms)
        launcher = Launcher(load_settings(None, {}, flags), self.catalogue, clock, self.chance(name))
        transport = self.transport(name)
        # A history needs a real directory, so there is one only where a test names it.
        keeps_history = "history.directory" in flags
        environment = launcher.environment(role, transport, InTurn(clock), keeps_history=keeps_history)
        if environment.history is not None:
            self._histories[name] = environment.history
        server = launcher.server(environment, self._open_disk)
        self.servers = {**self.servers, name: server}
        await server.start()
        return server

    def _open_disk(self, path: str) -> MemoryStorage:
        if path not in self._disks:
            self._disks[path] = LossyStorage(path, random.Random(path))
            self._disks[path].sync_seconds = self.sync_seconds
        return self._disks[path].open()

    def kill(self, name: str, power_lost: bool = False) -> None:
        """SIGKILL: the process ends, its peers see their connections end, its disk stays. ``power_lost``: its machine
        goes down; what it has not synced is lost in part."""
        self._clocks[name].kill()
        self.network.kill(name)
        # Killed processes are kept to the end, because their tasks sleep for ever and must not be garbage-collected.
        self._dead += [self.servers.get(name), self.clients.pop(name, None)]
        self._ended(name)
        if name in self._disks:
            self._disks[name].crash(power_lost)

    def _ended(self, name: str) -> None:
        if (history := self._histories.pop(name, None)) is not None:
            history.ignore_log()
        self.servers = {other: server for other, server in self.servers.items() if other != name}

    def wipe(self, name: str) -> None:
        """Remove a killed server's disk. Its next start has an empty one."""
        self._disks.pop(name, None)

    def disk(self, name: str) -> MemoryStorage | None:
        """A meta server's disk; None if it has none yet."""
        return self._disks.get(name)

    def freeze(self, name: str) -> None:
        """SIGSTOP: the process is frozen, its connections stay open."""
        self._clocks[name].freeze()
        self.network.freeze(name)

    def thaw(self, name: str) -> None:
        """SIGCONT: the process goes on."""
        self.network.thaw(name)
        self._clocks[name].thaw()

    def suspend(self, name: str) -> None:
        """The machine of the process is suspended: its clock goes on, its timers stand still."""
        self._clocks[name].suspend()
        self.network.freeze(name)

    def resume(self, name: str) -> None:
        """The machine goes on."""
        self.network.thaw(name)
        self._clocks[name].resume()

    async def stop(self, name: str, how: Stopping = Stopping.FOR_GOOD) -> None:
        """SIGTERM: stop the server in an orderly way (``how`` FOR_A_RESTART: SIGHUP)."""
        await self.servers[name].stop(how)
        self._ended(name)
        self.network.kill(name)
        if name in self._disks:
            self._disks[name].crash()

    def client(self, *sessions: str, name: str = "", **options: object) -> Client:
        """A client in a new process, with the addresses of these session servers (default: all). It can be killed."""
        name = name or f"client-{next(self._client_numbers)}"
        clock = self.process_clock(name)
        chosen = ClientOptions.model_validate(options)
        transport = self.transport(name)
        wanted = sessions or _of_role(self._addresses, Role.SESSION)
        addresses = [dialled(transport, session, self._addresses[session]) for session in wanted]
        client = Client(addresses, chosen, transport, clock, self.chance(name))
        self.clients[name] = client
        return client

    def transport(self, name: str, of: str = "") -> MemoryTransport:
        """The transport of a new process, or another one of the process ``of``."""
        return MemoryTransport(self._clocks[of or name], name, self.network, self._limits, self.keys(name))

    def keys(self, name: str) -> KeyRing | None:
        """The keys of a process; None where none are used."""
        return None

    def process_clock(self, name: str, wall_skew_ms: int = 0) -> ProcessClock:
        """The clock of a new process ``name``: a server, a client, or something else."""
        drift, processor, turn_ends = self.drifts.get(name, 0.0), self.processor(name), self.turn_ends(name)
        clock = self._clocks[name] = ProcessClock(wall_skew_ms, drift, processor, turn_ends)
        return clock

    def processor(self, name: str) -> SimulatedProcessor | None:
        """The processor of a new process; None where its work takes no time."""
        return None

    def turn_ends(self, name: str) -> random.Random | None:
        """Says when the turns of a new process are over; None where all its work in parts ends in one turn."""
        return None

    def clock(self, name: str) -> ProcessClock:
        """The clock of a process since its last start."""
        return self._clocks[name]

    def chance(self, name: str) -> random.Random:
        """The source of random numbers of a new process ``name``: the cluster's for all."""
        return self.rng


def _of_role(addresses: Mapping[str, str], role: Role) -> dict[str, str]:
    return {name: address for name, address in addresses.items() if name.startswith(f"{role}-")}
