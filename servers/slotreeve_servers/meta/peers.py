"""The outbox of a meta server: messages, and the writes of the meta state that its core begins."""

from __future__ import annotations

import logging
from functools import partial

from slotreeve.errors import ElectionError, Forbidden, ModelError, RequestTimeout, SlotreeveError
from slotreeve.model.nodes import Role
from slotreeve.ports import Election
from slotreeve_machines.beside import Work, Worked
from slotreeve_protocol.general_messages import Done, Failed
from slotreeve_protocol.history_messages import LONGEST_DENIAL, MOST_DENIALS, Denied, NoteDenials
from slotreeve_protocol.live_settings import SETTINGS_KEY, LiveSettings
from slotreeve_protocol.meta_messages import ConfigEntry, Configs, PutConfig, View
from slotreeve_protocol.orders import ORDERS_KEY

from slotreeve_servers.meta.core import MetaCore
from slotreeve_servers.meta.effects import LONGEST_WORK_SECONDS
from slotreeve_servers.meta.swap.back_end import HandsOver
from slotreeve_servers.meta.swap.election_in_use import POLL_SECONDS, GoingOver
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.outbox import Peer, Request
from slotreeve_servers.node.peers import Peers
from slotreeve_servers.node.supervisor import Supervisor

log = logging.getLogger("slotreeve.meta")

MOST_COUNTED = 1_000_000
"""How often a gateway may say that something was denied."""


class MetaPeers(Peers):
    """Implements :class:`slotreeve_servers.meta.effects.MetaOutbox`; ``core`` is set before the core acts."""

    core: MetaCore

    def __init__(self, environment: Environment, supervisor: Supervisor, election: Election) -> None:
        super().__init__(environment.clock, supervisor)
        self._catalogue, self._election = environment.catalogue, election
        self._beside = environment.beside
        self._is_computing = False

    def notify(self, hook: str, **arguments: object) -> None:
        """See :meth:`slotreeve_servers.meta.effects.MetaOutbox.notify`."""
        self._catalogue.notify(hook, **arguments)

    def commit(self, view: View, after: int) -> None:
        """See :meth:`slotreeve_servers.meta.effects.MetaOutbox.commit`."""
        self._supervisor.once(f"commit of view {view.revision}", partial(self._commit, view, after))

    async def _commit(self, view: View, after: int) -> None:
        old = self.core.view.read()
        try:
            await self.core.view.commit(view, after)
        except SlotreeveError as error:
            self.core.not_committed(view, error)
        except Exception as error:
            self.core.not_committed(view, error)
            raise
        else:
            self.core.committed(old, view)

    def compute(self, work: Work, worked: Worked) -> None:
        """See :meth:`slotreeve_servers.meta.effects.MetaOutbox.compute`."""
        late = RequestTimeout(f"it has not come to an end after {LONGEST_WORK_SECONDS:g} s")
        if self._is_computing:  # what came before it is late, and still runs
            waits = RequestTimeout(f"the one before has not come to an end after more than {LONGEST_WORK_SECONDS:g} s")
            self._clock.call_soon(lambda: self._run("plan", lambda: worked(None, waits)))
            return
        is_over, self._is_computing = False, True

        def over(result: object, error: Exception | None) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                timer.cancel()
                self._run("plan", lambda: worked(result, error))

        def ended(result: object, error: Exception | None) -> None:
            self._is_computing = False
            over(result, error)

        timer = self._clock.call_later(LONGEST_WORK_SECONDS, lambda: over(None, late))
        self._beside.run(work, ended)

    def put_config(self, message: PutConfig, term: int, request: Request) -> None:
        """See :meth:`slotreeve_servers.meta.effects.MetaOutbox.put_config`."""
        self._supervisor.once(f"put {message.key}", partial(self._put_config, message, term, request))

    async def _put_config(self, message: PutConfig, term: int, request: Request) -> None:
        try:
            entry = await self.core.configs.put(message, term)
        except GoingOver:
            # Nothing was stored. After the pause this server leads on, or names the leader.
            await self._clock.sleep(POLL_SECONDS)
            self.core.handlers.later[PutConfig](request.peer, message, request)
        except SlotreeveError as error:
            self.note_order(request, f"write {message.key}: not done: {error}")
            self.reply(request, Failed(error.code, str(error)))
        else:
            self._note_author(request, entry)
            self.reply(request, Configs([entry]))

    def _note_author(self, request: Request, entry: ConfigEntry) -> None:
        """Keep who wrote it; of orders and live settings, what they are since then. Other values are not kept."""
        if self.history is None:
            return
        event = self.history.note("configured", "removed" if entry.value is None else "written")
        if entry.key == ORDERS_KEY:
            event.reason = f"the orders are: {self.core.configs.orders}"
        elif entry.key == SETTINGS_KEY:
            event.reason = f"the live settings are: {LiveSettings.decode(entry.value)}"
        event.author, event.address = request.peer.author, request.peer.address
        event.key, event.version = entry.key, entry.version

    def note_order(self, request: Request | None, what: str) -> None:
        """Write down who ordered what, and what came of it."""
        if self.history is not None and request is not None:
            event = self.history.note("ordered", what)
            event.author, event.address = request.peer.author, request.peer.address

    def note_denials(self, peer: Peer, message: NoteDenials) -> Done:
        """A gateway tells what it has denied. Raises Forbidden, ModelError."""
        if peer.proven is not None and peer.proven.role is not Role.GATEWAY:
            raise Forbidden("the key is not that of a gateway; only gateways tell what they have denied")
        if len(message.denied) > MOST_DENIALS:
            raise ModelError(f"{len(message.denied)} denials in one message; expected at most {MOST_DENIALS}")
        gateway = peer.proven.name if peer.proven is not None else message.gateway
        for denied in message.denied:
            author, address, reason = (text[:LONGEST_DENIAL] for text in (denied.author, denied.address, denied.reason))
            count = min(max(1, denied.count), MOST_COUNTED)
            self.note_denial(Denied(author, address, reason, count), gateway[:LONGEST_DENIAL])
        return Done()

    def resign(self, request: Request | None, to: str = "") -> None:
        """See :meth:`slotreeve_servers.meta.effects.MetaOutbox.resign`."""
        self._supervisor.once("resign", partial(self._resign, request, to))

    async def _resign(self, request: Request | None, to: str) -> None:
        answer: Done | Failed = Done()
        try:
            if not to:
                await self._election.resign()
            elif isinstance(self._election, HandsOver):
                await self._election.hand_over(to)
            else:
                raise ElectionError("this election chooses its next leader itself; resign without naming one")
        except SlotreeveError as error:
            log.warning("this leader did not resign: %s", error)
            answer = Failed(error.code, str(error))
        what = f"resign in favour of {to}" if to else "resign"
        self.note_order(request, what if isinstance(answer, Done) else f"{what}: not done: {answer.reason}")
        if request is not None:
            self.reply(request, answer)
