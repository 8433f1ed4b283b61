"""The shell of a meta server: listens, and takes part in the election."""

from __future__ import annotations

from slotreeve.errors import ConfigError
from slotreeve.ports import Assigner, Balancer, Election, Leadership, Message, Versioned
from slotreeve_protocol.history_messages import NoteDenials
from slotreeve_protocol.live_settings import SETTINGS_KEY
from slotreeve_protocol.meta_messages import GetElection, GetShadow, Stopping, SwapElection, SwapOrder
from slotreeve_protocol.people_messages import GetSettings

from slotreeve_servers.meta.arranging.arranger import Arranger
from slotreeve_servers.meta.core import MetaCore
from slotreeve_servers.meta.members.addresses import MetaAddresses
from slotreeve_servers.meta.peers import MetaPeers
from slotreeve_servers.meta.swap.beside import NO_BACK_ENDS, BackEnds
from slotreeve_servers.meta.swap.election_in_use import ElectionInUse
from slotreeve_servers.meta.swap.shadow import Shadow
from slotreeve_servers.meta.swap.swap_requests import SwapRequests
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.history_requests import add_history
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.readiness import Condition
from slotreeve_servers.node.server import NodeServer


class MetaServer(NodeServer):
    """One meta process. ``start`` listens and joins the election; ``stop`` resigns and leaves."""

    def __init__(
        self,
        environment: Environment,
        election: Election,
        assigner: Assigner,
        balancer: Balancer,
        shadow: Shadow | None = None,
        back_ends: BackEnds = NO_BACK_ENDS,
    ) -> None:
        super().__init__(environment)
        self._shadow = shadow
        settings = environment.settings
        cluster, clock = settings.cluster, environment.clock
        election = self._election = ElectionInUse(settings.election.use, election, back_ends, clock, self._supervisor)
        arranger = Arranger(cluster.slots, cluster.replicas, assigner, balancer, settings.meta.protect_below)
        peers = self._peers = MetaPeers(environment, self._supervisor, election)
        self.core = peers.core = MetaCore(peers, election, arranger, settings, environment.node, environment.facts)
        self.core.addresses = MetaAddresses(environment.meta_servers, lambda: election.back_end.election)
        handlers = SwapRequests(environment, self._election, peers, self._supervisor)
        self._swaps = handlers
        self.core.handlers.requests[GetShadow] = self._on_get_shadow
        self.core.handlers.requests[GetElection] = handlers.on_get_election
        self.core.handlers.requests[NoteDenials] = peers.note_denials
        self.core.handlers.later[SwapElection] = handlers.on_swap_election
        self.core.handlers.later[SwapOrder] = handlers.on_swap_order
        add_history(self.core.handlers, peers, environment.history)
        self.core.handlers.requests[GetSettings] = self._on_get_settings
        self.settings_in_force.follow(lambda settings: self.core.rules_changed(settings.meta))

    def counters(self) -> dict[str, int]:
        """What the core counts, what its election counts, and what every server counts."""
        return {**self.core.counters(), **self._election.counters(), **self._common_counters()}

    def readiness(self) -> list[Condition]:
        """The checks of every server, and that this one knows a leader."""
        known = self.leadership()
        problem = "" if known.leader is not None else f"no meta server leads, as far as this one knows: {known.cause}"
        return [*super().readiness(), Condition("leader", problem)]

    @property
    def is_leading(self) -> bool:
        """Whether this server leads."""
        return self.leadership().leading

    def leadership(self) -> Leadership:
        """The leader as this node knows it."""
        return self._election.leadership()

    @property
    def election(self) -> Election:
        """The election in use, with the meta state as this node holds it."""
        return self._election

    async def start(self) -> None:
        """Listen, then join the election.

        Raises:
            AddressInUse, StorageError, ElectionError: this server cannot take part.
        """
        await self._listen(self._dispatcher(self.core.handlers, self.core, self))
        await self._election.start(self._leadership_changed)
        self._election.state.watch(self._committed)
        self._check_facts()
        self._take_settings()
        self._swaps.start()
        if self._shadow is not None:
            await self._shadow.start()
        self.core.start()

    async def stop(self, how: Stopping = Stopping.FOR_GOOD) -> None:
        """Resign, stop taking part, close every connection."""
        self.core.is_fit = False
        await self._election.stop()
        if self._shadow is not None:
            await self._shadow.stop()
        self.core.recorder.close()
        await self._close()

    # --- what the election reports -----------------------------------------------------------------------------------

    def _leadership_changed(self, leadership: Leadership) -> None:
        if self._shadow is not None:
            self._shadow.real_changed(leadership)
        self.core.leadership_changed(leadership)

    def _committed(self, key: str, stored: Versioned) -> None:
        self._check_facts()
        entry = self.core.configs.entry_of(key, stored)
        if entry is not None:
            if entry.version:
                self.core.config_committed(entry)
            if entry.key == SETTINGS_KEY:
                self._take_settings()

    def _take_settings(self) -> None:
        entry = self.core.configs.live_settings
        self.settings_in_force.take(entry.value, entry.version)

    def _check_facts(self) -> None:
        """A cluster keeps its slot facts for ever: with other numbers records would go to other slots."""
        kept, mine = self.core.view.read().facts, self._environment.facts
        if kept is not None and kept != mine:
            self.core.is_fit = False
            self._supervisor.give_up(
                ConfigError(
                    f"this cluster was made with {kept.slots} slots, {kept.replicas} replicas and slot function "
                    f"{kept.function!r}; the configuration of {self._environment.node.name} says {mine.slots}, "
                    f"{mine.replicas} and {mine.function!r} ([cluster] slots, replicas; [slot_function] use)"
                )
            )

    def _on_get_shadow(self, peer: Peer, message: GetShadow) -> Message:
        if self._shadow is None:
            raise ConfigError("no shadow election runs here; meta.shadow_election names one")
        return self._shadow.report()
