"""A whole cluster as real processes on loopback; used by ``cluster``, ``demo``, ``bench`` and tests."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from slotreeve.catalogue import build_plugin
from slotreeve.clock import MachineClock
from slotreeve.errors import ClientError, RequestTimeout
from slotreeve.key_files import issue
from slotreeve.keys import with_name
from slotreeve.model.nodes import Role
from slotreeve.offers import Port
from slotreeve.ports import Context, SlotFunction, Transport
from slotreeve_client.administration import complete_view
from slotreeve_client.tools import OWN_KEY, new_key_pair
from slotreeve_protocol.meta_messages import View
from slotreeve_servers.launch import ELECTION_PORT_OFFSET, ROLE_PORTS

from slotreeve_harness.free_ports import free_address, free_offset, free_ports

STOP_SECONDS = 5.0
POLL_SECONDS = 0.1
DNS_PORT_OFFSET = 2
LOOPBACK = "127.0.0.1"
KEYS, OPERATOR = "keys", "operator"


class ServerProcess:
    """One server process. Its output goes to ``log``. Each start runs ``command``.

    Attributes:
        dialled: what others connect to: its address, with its name before it where keys are used.
    """

    def __init__(self, role: Role, name: str, address: str, command: list[str], log: Path) -> None:
        self.role, self.name, self.address, self.log = role, name, address, log
        self.dialled = address
        self.command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False

    @property
    def pid(self) -> int:
        """Id of the running process; raises ClientError if there is none."""
        if self._process is None:
            raise ClientError(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True between start and end of the process."""
        return self._process is not None and self._process.poll() is None

    @property
    def has_failed(self) -> bool:
        """True if it was started and ended by itself."""
        return self._process is not None and self._process.poll() is not None

    @property
    def exit_code(self) -> int | None:
        """Of the process that has ended, negative where a signal ended it; None if there is none."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start it; returns before it listens. It ends by itself when this process does."""
        self._asked = False
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._signal(signal.SIGKILL)
        self._wait()

    def pause(self) -> None:
        """SIGSTOP: the process freezes, its connections stay."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def fill_disk(self) -> None:
        """Let every write that makes a file of the process longer fail, as on a full disk; Linux only."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (0, hard))

    def free_disk(self) -> None:
        """End :meth:`fill_disk`."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (hard, hard))

    def limit_memory(self, more_bytes: int) -> None:
        """Let the process get this much more memory than it has, and then none; Linux only."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + more_bytes
        resource.prlimit(self.pid, resource.RLIMIT_AS, (limit, limit))

    def signal_stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask for an orderly stop, and return before it ends; SIGHUP if it will be started again."""
        self._signal(signal.SIGCONT)
        self._signal(number)
        self._asked = True

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = STOP_SECONDS) -> None:
        """Ask for an orderly stop, unless that was done, and wait for its end; SIGKILL after ``seconds``."""
        if self.is_running and not self._asked:
            self.signal_stop(number)
        self._wait(seconds)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _wait(self, seconds: float = STOP_SECONDS) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def tail(self, lines: int = 20) -> str:
        """The last lines of its output."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


@dataclass(frozen=True)
class ClusterSize:
    """How many processes of each role."""

    meta: int = 3
    data: int = 3
    session: int = 2
    gateway: int = 0

    def __str__(self) -> str:
        gateways = f", {self.gateway} gateway" if self.gateway else ""
        return f"{self.meta} meta, {self.data} data, {self.session} session{gateways}"


DEFAULT_SIZE = ClusterSize()


class LocalCluster:
    """Meta, data, session and gateway processes of one cluster in ``directory`` (logs, meta state), on free ports.

    A context manager: leaving it ends every process by its own handle. ``settings`` are dotted keys for all of them.
    ``behind_proxies``: each server but the gateways advertises addresses at which it does not listen; ``proxied`` lists
    for each server which address to forward to which. ``gateway_hosts``: where gateways listen instead of at 127.0.0.1,
    each at one. ``face.dns.port`` is another one for each gateway, unless ``settings`` have it.
    """

    def __init__(
        self,
        directory: Path,
        size: ClusterSize = DEFAULT_SIZE,
        settings: Mapping[str, object] | None = None,
        rng: random.Random | None = None,
        behind_proxies: bool = False,
        gateway_hosts: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.name = "local"
        self.has_keys = False
        self.proxied: dict[str, list[tuple[str, str]]] = {}
        ports = free_ports(size.meta + size.data + size.session + size.gateway, rng or random.Random())
        names = [(Role.META, f"meta-{i + 1}") for i in range(size.meta)]
        names += [(Role.DATA, f"data-{i + 1}") for i in range(size.data)]
        names += [(Role.SESSION, f"session-{i + 1}") for i in range(size.session)]
        names += [(Role.GATEWAY, f"gateway-{i + 1}") for i in range(size.gateway)]
        gateways = (name for role, name in names if role is Role.GATEWAY)
        hosts = dict(zip(gateways, gateway_hosts, strict=False))
        addresses = {name: f"{hosts.get(name, LOOPBACK)}:{port}" for (_, name), port in zip(names, ports, strict=True)}
        self._metas = {name: addresses[name] for role, name in names if role is Role.META}
        sessions = ",".join(addresses[name] for role, name in names if role is Role.SESSION)
        self._settings = {
            "cluster.name": self.name,
            "log.format": "json",
            **({"gateway.sessions": sessions} if sessions else {}),
            **(settings or {}),
        }
        if behind_proxies:
            servers = {name: addresses[name] for role, name in names if role is not Role.GATEWAY}
            self._put_behind_proxies(servers, rng or random.Random())
        self.servers = {name: self._server(role, name, addresses[name]) for role, name in names}

    def _put_behind_proxies(self, addresses: dict[str, str], rng: random.Random) -> None:
        """Let every server listen at another address than it advertises; the caller forwards connections."""
        ports = free_ports(len(addresses), rng)
        for (name, address), port in zip(addresses.items(), ports, strict=True):
            near, far = int(address.rpartition(":")[2]), port
            offsets = (0, ELECTION_PORT_OFFSET) if name in self._metas else (0,)
            self.proxied[name] = [(f"127.0.0.1:{near + o}", f"127.0.0.1:{far + o}") for o in offsets]

    def _command(self, role: Role, name: str, address: str) -> list[str]:
        listens = "gateway.listen" if role is Role.GATEWAY else "node.advertise"
        settings = dict(self._settings) | {"node.name": name, listens: address}
        if self.has_keys:
            settings["node.own_key"] = self._own_key(role, name)
        if role is Role.GATEWAY:
            settings.setdefault("face.dns.port", dns_port(address))
        if name in self.proxied:
            settings["node.bind"] = self.proxied[name][0][1]
        for meta, meta_address in self._metas.items():
            settings[f"cluster.meta.{meta}"] = meta_address
        settings.setdefault("history.directory", str(self.directory / "history"))
        if role is Role.META and settings.get("election.use", "fle") == "fle":
            settings["election.fle.data_dir"] = str(self.directory / f"{name}.state")
        flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        return [sys.executable, "-m", "slotreeve_cli", str(role), "run", "--until-eof", *flags]

    def _server(self, role: Role, name: str, address: str) -> ServerProcess:
        return ServerProcess(role, name, address, self._command(role, name, address), self.directory / f"{name}.log")

    def use_keys(self) -> None:
        """Let every server have a key of its own, and let there be one for clients and tools: :attr:`operator_key`.
        Call it before the start. Addresses that others connect to say then whose they are. From now on, and
        until :meth:`stop`, this process and those that it starts use that key
        (:data:`slotreeve_client.tools.OWN_KEY`)."""
        self.has_keys = True
        os.environ[OWN_KEY] = self.operator_key
        issue(self.directory / KEYS, OPERATOR, Role.TOOL, new_key_pair())
        for server in self.servers.values():
            server.command = self._command(server.role, server.name, server.address)
            server.dialled = self._dialled(server.name, server.address)
        self.configure(Role.GATEWAY, {"gateway.sessions": ",".join(self.session_addresses)})

    @property
    def operator_key(self) -> str:
        """The file of the key for clients and tools; empty where no keys are used."""
        return str((self.directory / KEYS / f"{OPERATOR}.toml").absolute()) if self.has_keys else ""

    def _own_key(self, role: Role, name: str) -> str:
        own = self.directory / KEYS / f"{name}.toml"
        return str(own if own.exists() else issue(own.parent, name, role, new_key_pair()))

    def _dialled(self, name: str, address: str) -> str:
        return with_name(name, address) if self.has_keys else address

    def add_meta(self, name: str) -> ServerProcess:
        """One more meta server, which is not started. The others know it from the next :meth:`configure` on."""
        self._metas[name] = address = free_address()
        self.servers[name] = server = self._server(Role.META, name, address)
        return server

    def configure(self, role: Role, settings: Mapping[str, object]) -> None:
        """The servers of one role have these settings, too, from their next start on."""
        self._settings |= settings
        for server in self.of(role):
            server.command = self._command(role, server.name, server.address)

    @property
    def transport(self) -> str:
        """Name of the transport plugin that clients need."""
        return str(self._settings.get("transport.use", "zmq"))

    @property
    def replicas(self) -> int:
        """Copies of each slot, the leader's included."""
        return int(str(self._settings.get("cluster.replicas", 2)))

    def slot_function(self) -> SlotFunction:
        """The function that the servers map services to slots with."""
        slots = int(str(self._settings.get("cluster.slots", 256)))
        name = str(self._settings.get("slot_function.use", "crc32c"))
        function = build_plugin(Port.SLOT_FUNCTION, name, Context(self.name, slots, MachineClock(), random.Random(0)))
        assert isinstance(function, SlotFunction)
        return function

    def of(self, role: Role) -> list[ServerProcess]:
        """The servers of one role, by name."""
        return [server for server in self.servers.values() if server.role is role]

    @property
    def gateway_addresses(self) -> list[str]:
        """Where programs without our client connect."""
        return [server.address for server in self.of(Role.GATEWAY)]

    @property
    def session_addresses(self) -> list[str]:
        """Where clients connect."""
        return [server.dialled for server in self.of(Role.SESSION)]

    @property
    def meta_addresses(self) -> dict[str, str]:
        """Where tools connect, by the names of meta servers."""
        return {name: self._dialled(name, address) for name, address in self._metas.items()}

    @property
    def tool_environment(self) -> dict[str, str]:
        """The environment of commands that ask this cluster."""
        return {
            "SLOTREEVE_META": ",".join(self.meta_addresses.values()),
            "SLOTREEVE_SESSION": ",".join(self.session_addresses),
            "SLOTREEVE_CLUSTER": self.name,
            OWN_KEY: self.operator_key,
        }

    def start(self) -> None:
        """Start every server; returns before they are ready, see :meth:`ready`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for server in self.servers.values():
            server.start()

    async def ready(self, transport: Transport, timeout_seconds: float = 30.0) -> View:
        """Wait until every running data and session server is a member, every slot has leader and followers, and every
        gateway listens.

        Raises:
            RequestTimeout: not within ``timeout_seconds``; the message holds the ends of the logs.
            ClientError: a server ended by itself; the message holds the end of its log.
        """
        names = {s.name for s in self.servers.values() if s.role in (Role.DATA, Role.SESSION) and s.is_running}
        complete = asyncio.ensure_future(self._complete(transport, names, timeout_seconds))
        try:
            while not complete.done():
                for server in self.servers.values():
                    if server.has_failed:
                        raise ClientError(f"{server.name} ended by itself:\n{server.tail()}")
                await asyncio.wait([complete], timeout=POLL_SECONDS)
            return complete.result()
        except RequestTimeout as error:
            logs = "\n".join(f"--- {server.name}\n{server.tail(8)}" for server in self.servers.values())
            raise RequestTimeout(f"{error}\n{logs}") from None
        finally:
            complete.cancel()

    async def _complete(self, transport: Transport, names: set[str], timeout_seconds: float) -> View:
        metas = self.meta_addresses.values()
        view = await complete_view(transport, self.name, metas, names, self.replicas, timeout_seconds)
        for gateway in self.of(Role.GATEWAY):
            await _listening(gateway, timeout_seconds)
        return view

    def stop(self) -> None:
        """End every process: session and data servers first, while a leader can release them."""
        if self.has_keys:
            os.environ.pop(OWN_KEY, None)
        members = [server for server in self.servers.values() if server.role is not Role.META]
        for servers in (members, self.of(Role.META)):
            for server in servers:
                server.signal_stop()
            for server in servers:
                server.stop()

    def __enter__(self) -> LocalCluster:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


class DevServer:
    """``slotreeve dev`` as a process, on free ports; a context manager that waits until it is ready."""

    def __init__(self, *flags: str) -> None:
        offset = free_offset(random.Random())
        self.meta_address = f"127.0.0.1:{ROLE_PORTS[Role.META] + offset}"
        self.session_address = f"127.0.0.1:{ROLE_PORTS[Role.SESSION] + offset}"
        self.gateway_address = f"127.0.0.1:{ROLE_PORTS[Role.GATEWAY] + offset}"
        self._command = [
            sys.executable,
            "-m",
            "slotreeve_cli",
            "dev",
            "--until-eof",
            "--port-offset",
            str(offset),
            *flags,
        ]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> DevServer:
        """Start it.

        Raises:
            ClientError: it ended instead of getting ready; what it said is in the log of the caller.
        """
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith("ready"):
            raise ClientError(f"slotreeve dev ended with exit code {self._process.wait()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it in order."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def dns_port(gateway: str) -> int:
    """Where the gateway at this address answers DNS, if it does and no setting says otherwise."""
    return int(gateway.rpartition(":")[2]) + DNS_PORT_OFFSET


async def _listening(server: ServerProcess, timeout_seconds: float) -> None:
    """Wait until a running server takes connections. Raises RequestTimeout."""
    host, _, port = server.address.rpartition(":")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    while server.is_running:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            if loop.time() > deadline:
                raise RequestTimeout(f"{server.name} does not listen after {timeout_seconds:g} s") from None
            await asyncio.sleep(POLL_SECONDS)
        else:
            writer.close()
            return
