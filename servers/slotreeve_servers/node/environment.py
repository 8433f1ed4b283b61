"""What a server is built with."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from slotreeve.catalogue import Catalogue
from slotreeve.clock import Clock
from slotreeve.model.nodes import Node
from slotreeve.model.slots import SlotFacts
from slotreeve.ports import Hello, SlotFunction, Transport
from slotreeve.ports.transport import dialled
from slotreeve_events.history import ServerHistory
from slotreeve_events.log import EventLog
from slotreeve_machines.beside import Beside

from slotreeve_servers.node.supervisor import Supervisor
from slotreeve_servers.settings import Settings


@dataclass(frozen=True)
class Environment:
    """Clock, chance, network, settings and plugins of one server process.

    Attributes:
        node: who this server is; ``node.address`` is where others reach it.
        bind: ``host:port`` to listen on.
        facts: the slot facts of the cluster; every hello carries them.
        beside: runs what takes too long for the event loop.
        events: the event log, where one is asked for; the server closes it when it stops.
        history: what this server keeps of the past, if it does; the server begins and closes it.
        origins: where each setting comes from, by its dotted key; see :class:`slotreeve.configuration.Configuration`.
    """

    settings: Settings
    catalogue: Catalogue
    clock: Clock
    rng: random.Random
    transport: Transport
    slot_function: SlotFunction
    node: Node
    bind: str
    facts: SlotFacts
    beside: Beside
    events: EventLog | None = None
    history: ServerHistory | None = None
    origins: Mapping[str, str] = field(default_factory=dict)

    def common_counters(self, supervisor: Supervisor) -> dict[str, int]:
        """What every server counts: frames and connections, and failures of its own loops."""
        wire = self.transport.counters
        return {
            "loop_failures": sum(supervisor.failures.values()),
            "malformed_frames": wire.malformed_frames,
            "oversize_frames": wire.oversize_frames,
            "refused_hellos": wire.refused_hellos,
            "refused_keys": wire.refused_keys,
            "backpressure": wire.backpressure,
            "handler_errors": wire.handler_errors,
            "history_lost": self.history.lost_in_all if self.history is not None else 0,
        }

    @property
    def meta_servers(self) -> dict[str, str]:
        """What to connect to for each meta server of the configuration, by name."""
        return {name: dialled(self.transport, name, address) for name, address in self.settings.cluster.meta.items()}

    def hello(self) -> Hello:
        """The hello of this server."""
        return Hello(
            self.settings.cluster.name,
            self.node.name,
            self.node.role,
            self.node.process_id,
            self.node.address,
            facts=self.facts,
        )
