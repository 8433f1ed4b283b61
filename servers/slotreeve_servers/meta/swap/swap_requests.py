"""The requests that concern a swap of the election, and the search for the election in use.

The back-end of its configuration may be one that the cluster has left. Where that has no leader, the other meta servers
know which one is in use.
"""

from __future__ import annotations

import logging
from functools import partial

from slotreeve.errors import ElectionError, NotLeader, SlotreeveError, StaleTerm
from slotreeve_protocol.general_messages import Done, Failed
from slotreeve_protocol.meta_messages import ElectionIs, GetElection, SwapElection, SwapOrder

from slotreeve_servers.meta.peers import MetaPeers
from slotreeve_servers.meta.swap.election_in_use import ElectionInUse
from slotreeve_servers.meta.swap.swap import Swap
from slotreeve_servers.meta.swap.swap_record import SwapRecord
from slotreeve_servers.meta.swap.swap_steps import SwapSteps
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.other_meta_servers import OtherMetaServers
from slotreeve_servers.node.outbox import Peer, Request
from slotreeve_servers.node.supervisor import Supervisor

log = logging.getLogger("slotreeve.swap")

SEARCH_SECONDS = 5.0
ANSWER_SECONDS = 1.0


class SwapRequests:
    """The shell of a meta server's part in swaps."""

    def __init__(
        self, environment: Environment, election: ElectionInUse, peers: MetaPeers, supervisor: Supervisor
    ) -> None:
        self._node, self._clock = environment.node.name, environment.clock
        self._election, self._peers, self._supervisor = election, peers, supervisor
        self._others = OtherMetaServers(environment)
        self._steps = SwapSteps(election, environment.clock)
        self._swap = Swap(self._node, election, self._steps, self._others, environment.clock)

    def start(self) -> None:
        """Look for the election in use while there is no leader; with options for one election only, there is no other
        one to go over to."""
        if self._others.names and set(self._election.beside.names) - {self._election.back_end.name}:
            self._supervisor.start("search for the election in use", self._search)

    def on_get_election(self, _peer: Peer, _message: GetElection) -> ElectionIs:
        """Which election this meta server uses."""
        election, leadership = self._election, self._election.leadership()
        name, number = election.latest
        members = self._peers.core.addresses.all()
        return ElectionIs(self._node, name, election.configured, number, leadership.leader, leadership.term, members)

    def on_swap_order(self, _peer: Peer, order: SwapOrder, request: Request) -> None:
        """The meta leader orders a step."""
        self._supervisor.once(f"step {order.step.name} of a swap", partial(self._take, order, request))

    def on_swap_election(self, peer: Peer, message: SwapElection, request: Request) -> None:
        """An operator asks for a swap."""
        if not self._election.leadership().leading:
            self._peers.reply(request, self._peers.core.leader_is())
            return
        if message.check_only:
            log.info("%s asks whether a swap to the election %s is possible", peer.node, message.to)
        else:
            log.warning("%s asks for a swap to the election %s", peer.node, message.to)
        self._supervisor.once(f"swap to {message.to}", partial(self._run, message, request))

    async def _take(self, order: SwapOrder, request: Request) -> None:
        try:
            await self._steps.take(order)
        except SlotreeveError as error:
            self._peers.reply(request, Failed(error.code, str(error)))
        else:
            self._peers.reply(request, Done())

    async def _run(self, message: SwapElection, request: Request) -> None:
        try:
            swapped = await self._swap.run(message.to, message.check_only, message.without)
        except (NotLeader, StaleTerm) as error:
            log.warning("the swap to %s has ended with the lead of this server: %s", message.to, error)
            self._peers.reply(request, self._peers.core.leader_is())
        except SlotreeveError as error:
            if not message.check_only:
                log.warning("the swap to %s has failed: %s", message.to, error)
                self._peers.note_order(request, f"swap to the election {message.to}: not done: {error}")
            self._peers.reply(request, Failed(error.code, str(error)))
        else:
            if not message.check_only:
                self._peers.note_order(request, f"swap to the election {message.to}")
            self._peers.reply(request, swapped)

    async def _search(self) -> None:
        while True:
            await self._clock.sleep(SEARCH_SECONDS)
            if self._election.leadership().leader is None:
                for name in self._others.names:
                    await self._look_at(name)

    async def _look_at(self, name: str) -> None:
        try:
            found = await self._others.ask(name, GetElection(), ANSWER_SECONDS)
        except ElectionError as error:
            log.debug("the election in use is not known from there: %s", error)
            return
        if isinstance(found, ElectionIs) and found.generation > self._election.generation:
            self._election.go_over(SwapRecord("", found.generation, found.use))
