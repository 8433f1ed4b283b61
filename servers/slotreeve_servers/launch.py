"""Making a server from a configuration."""

from __future__ import annotations

import dataclasses
import functools
import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from slotreeve import __version__
from slotreeve.catalogue import Catalogue, Listed
from slotreeve.clock import Clock
from slotreeve.errors import ConfigError, SlotreeveError, StorageError
from slotreeve.key_files import load_keys, read_own
from slotreeve.keys import KeyRing, Principal
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotFacts
from slotreeve.offers import Options, Port
from slotreeve.ports import Assigner, Balancer, Context, Election, SlotFunction, Storage, Transport
from slotreeve.ports.transport import dialled
from slotreeve_events.history import ServerHistory
from slotreeve_events.history_files import HistoryFiles
from slotreeve_events.history_store import directory_of
from slotreeve_events.log import EventLog
from slotreeve_events.segments import Segments
from slotreeve_machines.beside import Beside, InThread
from slotreeve_protocol.addresses import is_loopback

from slotreeve_servers.meta.members.addresses import ELECTION_PORT_OFFSET as ELECTION_PORT_OFFSET
from slotreeve_servers.meta.swap.shadow import Shadow
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.settings import ServerConfiguration

if TYPE_CHECKING:
    from slotreeve_servers.any_server import Server

log = logging.getLogger("slotreeve.launch")

ROLE_PORTS = {Role.META: 7710, Role.DATA: 7720, Role.SESSION: 7730, Role.GATEWAY: 7740}
HIGHEST_PORT = 65_535
HTTP_PORT_OFFSET = 1
SHADOW_PORT_OFFSET = 3
"""The shadow election listens at the port of the meta server plus this. Plus 2 is for the election."""

OF_MEMBERS = (Port.TRANSPORT, Port.SLOT_FUNCTION)
OF_META = (*OF_MEMBERS, Port.ELECTION, Port.ASSIGNER, Port.BALANCER)
P = TypeVar("P")


class Launcher:
    """Builds servers of one configuration. Every plugin that it needs is checked before anything starts.

    ``transport`` overrides the configured one (several servers of one process may share a network).

    Raises:
        ConfigError, PluginError: something in the configuration is wrong; names it and where it stands.
    """

    def __init__(
        self, configuration: ServerConfiguration, catalogue: Catalogue, clock: Clock, rng: random.Random
    ) -> None:
        self._configuration, self._catalogue = configuration, catalogue
        self._clock, self._rng = clock, rng
        self._own, self._keys = _keys_of(configuration)
        self._options = configuration.check_plugins(catalogue)
        self._shadow = check_shadow(configuration, catalogue)

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._configuration.settings.cluster.name

    def node(self, role: Role) -> tuple[Node, str]:
        """The node that a server of this role is by the configuration, and the address that it binds.

        Raises:
            ConfigError: a meta server without a place in ``cluster.meta``, or a listen address open to the world.
        """
        settings = self._configuration.settings
        mine = settings.node
        advertise = mine.advertise or f"127.0.0.1:{ROLE_PORTS[role] + mine.port_offset}"
        given = self._name(role)
        name = given or f"{role}-{advertise}"
        if role is Role.META:
            name = given or next(iter(settings.cluster.meta))
            if name not in settings.cluster.meta:
                raise ConfigError(
                    f"{self._configuration.where('node.name')}: meta server {name!r} is not in [cluster.meta], which "
                    f"names {', '.join(settings.cluster.meta)}"
                )
            advertise = settings.cluster.meta[name]
        bind = mine.bind or advertise
        if self._keys is None:
            self._check_reach("node.bind", bind, "keys (node.own_key)")
        process_id = f"{name}@{self._rng.getrandbits(48):012x}"
        return Node(name, role, advertise, process_id, mine.zone, mine.weight), bind

    def gateway_node(self) -> Node:
        """The node that a gateway is by the configuration; its address is where it listens.

        Raises:
            ConfigError: the address is not host:port, or other machines can reach it, and tokens or TLS lack.
        """
        mine = self._configuration.settings.node
        address = self._configuration.settings.gateway.listen
        address = address or f"127.0.0.1:{ROLE_PORTS[Role.GATEWAY] + mine.port_offset}"
        _port_above(address, 0, self._configuration.where("gateway.listen"), "HTTP")
        self._check_gateway(address)
        name = self._name(Role.GATEWAY) or f"{Role.GATEWAY}-{address}"
        return Node(name, Role.GATEWAY, address, f"{name}@{self._rng.getrandbits(48):012x}", mine.zone, mine.weight)

    @property
    def may_be(self) -> tuple[Role, ...]:
        """What a process with this configuration may be: that for which its key is, or anything that runs."""
        runs = (Role.META, Role.DATA, Role.SESSION, Role.GATEWAY)
        return runs if self._own is None or self._own.role not in runs else (self._own.role,)

    def http_address(self, bind: str) -> str:
        """Where a server that listens at ``bind`` serves health and metrics; empty: it does not.

        Raises:
            ConfigError: the address is not host:port, or is open to the world.
        """
        http = self._configuration.settings.http
        if not http.enabled:
            return ""
        address = http.listen or _port_above(bind, HTTP_PORT_OFFSET, "node.bind", "HTTP")
        _port_above(address, 0, self._configuration.where("http.listen"), "HTTP")
        if not http.strangers:
            self._check_reach("http.listen", address, "authentication", "http.strangers = true")
        return address

    @property
    def roles(self) -> Sequence[Role]:
        """The roles that servers of this configuration may have: that of its key, or any."""
        return [self._own.role] if self._own is not None else [Role.META, Role.DATA, Role.SESSION]

    def _name(self, role: Role) -> str:
        """The name that the configuration or the key of this process gives it; empty: none.

        Raises:
            ConfigError: the key is that of another one.
        """
        name, own = self._configuration.settings.node.name, self._own
        if own is None:
            return name
        if own.role is not role or (name and name != own.name):
            raise ConfigError(
                f"{self._configuration.where('node.own_key')}: this is the key of the {own.role} {own.name}, and this "
                f"process is the {role} {name or '(node.name is empty)'}; expected its own key"
            )
        return own.name

    def _check_gateway(self, address: str) -> None:
        """Raises ConfigError: other machines can reach ``address`` without tokens or without TLS, and the operator has
        not accepted that."""
        settings = self._configuration.settings
        lacking = [
            what
            for what, is_there in (
                ('tokens (gateway.authentication = "tokens")', settings.gateway.authentication == "tokens"),
                ("TLS (gateway.tls_certificate, gateway.tls_key)", bool(settings.gateway.tls_certificate)),
            )
            if not is_there
        ]
        if not lacking or is_loopback(address):
            return
        where, lacks = self._configuration.where("gateway.listen"), " and ".join(lacking)
        if not settings.node.insecure:
            raise ConfigError(
                f"{where}: {address} can be reached from other machines, and there is no {lacks}; set that, listen on "
                "loopback, or accept it with node.insecure = true"
            )
        log.warning("%s: %s can be reached from other machines without %s (node.insecure)", where, address, lacks)

    def _check_reach(self, key: str, address: str, lacking: str, accepts: str = "node.insecure = true") -> None:
        """Raises ConfigError: other machines can reach ``address``, and the operator has not accepted that."""
        if not self._configuration.settings.node.insecure and not is_loopback(address):
            raise ConfigError(
                f"{self._configuration.where(key)}: {address} can be reached from other machines and there are no "
                f"{lacking}; listen on loopback, or accept that with {accepts}"
            )

    def environment(
        self,
        role: Role,
        transport: Transport | None = None,
        beside: Beside | None = None,
        *,
        keeps_history: bool = False,
    ) -> Environment:
        """What a server of this role is built with. ``beside``: by default threads. ``keeps_history``: it may use the
        directory of the history, unless the configuration says that it shall not.

        Raises:
            ConfigError, PluginError.
        """
        settings = self._configuration.settings
        node, bind = self.node(role)
        beside = beside if beside is not None else InThread()
        transport = transport if transport is not None else self.transport(node.name)
        node = msgspec.structs.replace(node, address=dialled(transport, node.name, node.address))
        return Environment(
            settings,
            self._catalogue,
            self._clock,
            self._rng,
            transport,
            self._build(Port.SLOT_FUNCTION, SlotFunction, self._context(node.name)),  # type: ignore[type-abstract]
            node,
            bind,
            SlotFacts(settings.cluster.slots, settings.cluster.replicas, settings.slot_function.use),
            beside,
            self._event_log(node, beside),
            self._history(node, beside) if keeps_history else None,
            self._configuration.origins,
        )

    def _event_log(self, node: Node, beside: Beside) -> EventLog | None:
        """The event log, where the configuration names a directory. Raises StorageError."""
        rules = self._configuration.settings.events
        if not rules.path:
            return None
        segments = Segments(Path(rules.path), node.process_id, rules.segment_bytes)
        events = EventLog(segments, node, self._clock, beside.run, rules)
        if node.role is Role.META:
            self._catalogue.manager.register(events)
        return events

    def _history(self, node: Node, beside: Beside) -> ServerHistory | None:
        """The history of a server, which it can do without."""
        rules = self._configuration.settings.history
        if not rules.enabled:
            return None
        directory = directory_of(Path(rules.directory), self.cluster, node.name)
        try:
            files = HistoryFiles(directory, rules, self._clock.wall_ms())
        except StorageError as error:
            log.warning("this server keeps no history: %s", error)
            return None
        history = ServerHistory(files, node, self._clock, beside.run, rules)
        ports = OF_META if node.role is Role.META else OF_MEMBERS
        chosen = ", ".join(f"{port} {self._configuration.choice(port).use}" for port in ports)
        history.note("started", f"version {__version__}; {chosen}").role = str(node.role)
        if node.role is Role.META:
            self._catalogue.manager.register(history)
        return history

    def check(self) -> None:
        """Build every plugin as a meta server would, and throw all of it away: nothing is opened or connected.

        Raises:
            ConfigError, PluginError, and what a plugin's ``build`` raises: a server would not start.
        """
        node = self._first_meta()
        transport = self.transport(node)
        context = self._context(node, transport)
        self._build(Port.SLOT_FUNCTION, SlotFunction, context)  # type: ignore[type-abstract]
        self.election()
        self._build(Port.ASSIGNER, Assigner, context)  # type: ignore[type-abstract]
        self._build(Port.BALANCER, Balancer, context)  # type: ignore[type-abstract]
        self._build_shadow(node, transport, None)

    def election(self, node: str = "", open_storage: Callable[[str], Storage] | None = None) -> Election:
        """The election as the meta server ``node`` would build it, else the first one, for tools. It is not started.

        Raises:
            PluginError, and what the election's ``build`` raises.
        """
        node = node or self._first_meta()
        context = self._context(node, self.transport(node), open_storage)
        return self._build(Port.ELECTION, Election, context)  # type: ignore[type-abstract]

    def meta_listens_at(self, node: str) -> tuple[str, str]:
        """Where the meta server ``node`` listens: for requests, and for its election.

        Raises:
            ConfigError: an address is not host:port.
        """
        bind = self._configuration.settings.node.bind
        context = self._context(node)
        return bind or self._configuration.settings.cluster.meta[node], context.listen or context.members[node]

    def _first_meta(self) -> str:
        return next(iter(self._configuration.settings.cluster.meta))

    def transport(self, node: str) -> Transport:
        """The configured transport."""
        return self._build(Port.TRANSPORT, Transport, self._context(node))  # type: ignore[type-abstract]

    def server(self, environment: Environment, open_storage: Callable[[str], Storage]) -> Server:
        """A server that is not started yet. Call it on the server's event loop.

        Raises:
            PluginError, and what the election's ``build`` raises.
        """
        # A process imports the servers of its own role only, and a tool that checks a configuration none.
        node = environment.node
        if node.role is Role.DATA:
            from slotreeve_servers.data.server import DataServer

            return DataServer(environment)
        if node.role is Role.SESSION:
            from slotreeve_servers.session.server import SessionServer

            return SessionServer(environment)
        from slotreeve_servers.meta.server import MetaServer

        context = self._context(node.name, environment.transport, open_storage)
        elections = ConfiguredElections(self._configuration, self._catalogue, context)
        elections.prepare()
        return MetaServer(
            environment,
            self._build(Port.ELECTION, Election, context),  # type: ignore[type-abstract]
            self._build(Port.ASSIGNER, Assigner, context),  # type: ignore[type-abstract]
            self._build(Port.BALANCER, Balancer, context),  # type: ignore[type-abstract]
            self._build_shadow(node.name, environment.transport, open_storage),
            elections,
        )

    def _build_shadow(
        self, node: str, transport: Transport, open_storage: Callable[[str], Storage] | None
    ) -> Shadow | None:
        """The second election of a meta server. It is in a cluster of its own, where it meets other shadows only."""
        if self._shadow is None:
            return None
        entry, options = self._shadow
        context = self._context(node, transport, open_storage, "-shadow", SHADOW_PORT_OFFSET)
        built = self._catalogue.build(entry, options, context)
        assert isinstance(built, Election)
        return Shadow(entry.offer.name, built, self._clock)

    def _context(
        self,
        node: str,
        transport: Transport | None = None,
        open_storage: Callable[[str], Storage] | None = None,
        suffix: str = "",
        offset: int = ELECTION_PORT_OFFSET,
    ) -> Context:
        cluster, bind = self._configuration.settings.cluster, self._configuration.settings.node.bind
        members = {
            name: dialled(transport, name, _port_above(address, offset, f"cluster.meta.{name}", "the election"))
            for name, address in cluster.meta.items()
        }
        listen = _port_above(bind, offset, "node.bind", "the election") if bind else ""
        return Context(
            cluster.name + suffix,
            cluster.slots,
            self._clock,
            self._rng,
            node,
            members,
            transport,
            open_storage,
            listen=listen,
            keys=self._keys,
        )

    def _build(self, port: Port, protocol: type[P], context: Context) -> P:
        choice = self._configuration.choice(port)
        options: Options = self._options[port]
        built = self._catalogue.build(self._catalogue.find(port, choice.plugin(choice.use)), options, context)
        assert isinstance(built, protocol)
        return built


def _keys_of(configuration: ServerConfiguration) -> tuple[Principal | None, KeyRing | None]:
    """Who this process is by its key, and what it proves and checks identities with; None where it has no key. Raises
    ConfigError."""
    node = configuration.settings.node
    keys = load_keys(node.own_key, node.trusted_keys)
    return read_own(Path(node.own_key))[0] if keys is not None else None, keys


def check_shadow(configuration: ServerConfiguration, catalogue: Catalogue) -> tuple[Listed, Options] | None:
    """The offer of the shadow election, with its options; None where the configuration names none.

    Raises:
        PluginError: unknown name or bad options.
        ConfigError: it is the election in use: it would meet itself.
    """
    name = configuration.settings.meta.shadow_election
    if not name:
        return None
    where = configuration.where("meta.shadow_election")
    if name == configuration.settings.election.use:
        raise ConfigError(f"{where}: {name!r} is the election in use; a shadow must be another one")
    return _election(configuration, catalogue, name, where)


def _election(
    configuration: ServerConfiguration, catalogue: Catalogue, name: str, where: str = ""
) -> tuple[Listed, Options]:
    """The offer of an election with the options that the configuration has for it. Raises PluginError."""
    chosen = configuration.settings.election
    entry = catalogue.find(Port.ELECTION, chosen.plugin(name), where)
    where_in = functools.partial(configuration.where_in, f"election.{name}")
    return entry, catalogue.options(entry, chosen.table(name), where_in)


class ConfiguredElections:
    """Implements :class:`slotreeve_servers.meta.swap.beside.BackEnds` for one meta server."""

    def __init__(self, configuration: ServerConfiguration, catalogue: Catalogue, context: Context) -> None:
        self._configuration, self._catalogue, self._context = configuration, catalogue, context

    def build(self, name: str) -> Election:
        """See BackEnds."""
        built = self._catalogue.build(*_election(self._configuration, self._catalogue, name), self._context)
        assert isinstance(built, Election)
        return built

    def prepare(self) -> None:
        """Build each of them that is not in use, and throw it away: the import of a database driver takes longer than a
        leader can stand still for. What cannot be built is logged."""
        trial = dataclasses.replace(self._context, rng=random.Random(0))
        for name in self.names():
            if name != self._configuration.settings.election.use:
                try:
                    self._catalogue.build(*_election(self._configuration, self._catalogue, name), trial)
                except SlotreeveError as error:
                    log.warning("a swap to the election %s would be refused: %s", name, error)

    def names(self) -> Sequence[str]:
        """See BackEnds."""
        chosen = self._configuration.settings.election
        return sorted({chosen.use, *(chosen.model_extra or {})})


def _port_above(address: str, offset: int, key: str, what: str) -> str:
    """``address`` with its port plus ``offset``, where ``what`` listens; ``key`` is the setting, for the message."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"{key}: {address!r} is not host:port")
    if int(port) + offset > HIGHEST_PORT:
        raise ConfigError(f"{key}: {address!r} leaves no port for {what}, which listens {offset} above it")
    return f"{host}:{int(port) + offset}"
