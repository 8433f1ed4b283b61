"""The asyncio face of the client."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Sequence
from types import TracebackType

from slotreeve.catalogue import build_plugin
from slotreeve.clock import Clock, LoopClock
from slotreeve.errors import (
    ClientClosed,
    ClientError,
    ConnectionLost,
    Refused,
    RequestTimeout,
    TransportError,
)
from slotreeve.model.nodes import Role
from slotreeve.offers import Port
from slotreeve.ports import Connection, Context, Hello, Message, Transport
from slotreeve_protocol.client_messages import Datum, Get, ListServices, Redirect, Scope, Services, Withdraw
from slotreeve_protocol.general_messages import Failed, Ping
from slotreeve_protocol.hello import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION

from slotreeve_client.configuration import ConfigWatch
from slotreeve_client.core import ClientCore, ClientState
from slotreeve_client.options import ClientOptions
from slotreeve_client.publication import Publication
from slotreeve_client.subscription import Instance, Subscription

log = logging.getLogger("slotreeve.client")

FIRST_PAUSE_SECONDS = 0.02
RECEIPT_SECONDS = 0.05
"""Pushes are acknowledged together, when there is time: the session server lets many be on their way."""


class Client:
    """A connection to the registry that mends itself. Use from one event loop only.

    Make one with :func:`connect`. A lost session server is replaced by another one; everything published and
    subscribed is replayed there, under the same ids and versions, so that nobody sees it disappear.
    """

    def __init__(
        self, addresses: list[str], options: ClientOptions, transport: Transport, clock: Clock, rng: random.Random
    ) -> None:
        if not addresses:
            raise ClientError("no session server address was given; give at least one host:port")
        self._addresses, self._options = list(addresses), options
        self._transport, self._clock, self._rng = transport, clock, rng
        self.client_id = f"{rng.getrandbits(64):016x}"
        self._core = ClientCore(self.client_id, options, self._flush_soon)
        self._connection: Connection | None = None
        self._failed_address = ""
        self._failures: dict[str, str] = {}
        self._refusal: Refused | None = None
        self._scheduled = False
        self._receipts_scheduled = False
        self._moving = False
        self._wake = asyncio.Event()
        self._flushed = asyncio.Event()
        self._listeners: list[Callable[[ClientState], None]] = []
        self.state = ClientState.CONNECTING
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(), name="slotreeve client")
        self._task.add_done_callback(self._ended)

    # --- what users call -----------------------------------------------------------------------------------------

    def publish(self, service: str, *data: bytes | str, zone: str | None = None) -> Publication:
        """Register a provider of ``service`` (a data id, or a whole data info id). Returns at once; records wait
        and are sent as soon as there is a connection, many in one message when there are many.

        Raises:
            ModelError: there can be no service of that name, or the data are too much.
            ClientClosed.
        """
        return self._core.publish(service, data, zone)

    def subscribe(
        self,
        service: str,
        on_change: Callable[[Subscription], None] | None = None,
        scope: Scope = Scope.DATA_CENTER,
    ) -> Subscription:
        """Watch ``service``: ``on_change`` is called on the event loop with the subscription, at first with what is
        there, then at every change (newest state only).

        Raises:
            ModelError: there can be no service of that name.
            ClientClosed.
        """
        return self._core.subscribe(service, on_change, scope)

    def watch_config(self, key: str, on_change: Callable[[ConfigWatch], None] | None = None) -> ConfigWatch:
        """Watch a key of the provided configuration (``slotreeve provide``): ``on_change`` is called on the event loop
        with the watch, at first with what is there, then at every change (newest only).

        Raises:
            ClientClosed.
        """
        return self._core.watch_config(key, on_change)

    async def get(self, service: str) -> tuple[Instance, ...]:
        """The providers of ``service`` now, as its slot's leader knows them.

        Raises:
            ModelError, ClientClosed, RequestTimeout.
        """
        reply = await self._ask(Get(self._core.data_info_id(service)))
        if not isinstance(reply, Datum):
            raise ClientError(f"the session server answered a Get with a {type(reply).__name__}")
        return tuple([Instance(p.register_id, p.zone, p.data) for p in reply.publishers if p.data is not None])

    async def list(self, prefix: str = "") -> dict[str, int]:
        """Number of providers by data info id, of the services whose id starts with ``prefix``.

        Raises:
            ClientClosed, RequestTimeout.
        """
        reply = await self._ask(ListServices(prefix))
        if not isinstance(reply, Services):
            raise ClientError(f"the session server answered ListServices with a {type(reply).__name__}")
        return reply.counts

    async def flush(self) -> None:
        """Wait until everything published so far is stored by the slots' leaders.

        Raises:
            ClientClosed: the client was closed before.
        """
        while self._core.unacknowledged:
            if self._core.closed:
                raise ClientClosed("the client was closed")
            self._flushed.clear()
            await self._flushed.wait()

    async def connected(self) -> None:
        """Wait until there is a connection.

        Raises:
            Refused: every session server refuses this client; it keeps trying nevertheless.
            ClientClosed.
        """
        while self._connection is None:
            if self._core.closed:
                raise ClientClosed("the client was closed")
            if self._refusal is not None:
                raise self._refusal
            self._changed.clear()
            await self._changed.wait()

    def on_state(self, listener: Callable[[ClientState], None]) -> None:
        """Call ``listener`` on the event loop at every change of ``state``."""
        self._listeners.append(listener)

    @property
    def server(self) -> str | None:
        """Address of the session server in use; None while there is none."""
        return self._connection.address if self._connection is not None else None

    def why_not_connected(self) -> str:
        """What each address last answered to an attempt, for a message; empty before the first failure."""
        return "".join(f"; {address}: {reason}" for address, reason in self._failures.items())

    async def close(self) -> None:
        """Say goodbye: what was published here ends at once. Idempotent."""
        if self._core.closed:
            return
        self._core.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            self._say_goodbye(self._connection)
        await self._transport.close()
        self._set_state(ClientState.CLOSED)
        self._changed.set()
        self._flushed.set()

    @staticmethod
    def _say_goodbye(connection: Connection) -> None:
        try:
            connection.send(Withdraw())
        except TransportError as error:
            log.info("no goodbye to %s, which will notice by the closed connection: %s", connection.address, error)
        connection.close("the client was closed")

    async def __aenter__(self) -> Client:
        """The client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    # --- the connection ------------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """The transport: a session server accepted us."""
        before, self._connection = self._connection, connection
        if before is not None:
            before.close("moved")
        self._failures.clear()
        self._refusal = None
        self._core.connected(connection.peer.process_id)
        self._set_state(ClientState.CONNECTED)
        self._changed.set()

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """The transport: a message."""
        if connection is self._connection:
            if isinstance(message, Redirect):
                self._move_away(connection, message.addresses)
                return
            self._core.received(message)
            if not self._core.unacknowledged:
                self._flushed.set()
            if self._core.owes_receipts and not self._receipts_scheduled:
                self._receipts_scheduled = True
                self._clock.call_later(RECEIPT_SECONDS, self._flush_receipts)

    def _move_away(self, connection: Connection, addresses: Sequence[str]) -> None:
        """The server stops: it serves on until there is another."""
        log.info("%s stops; moving to one of %s", connection.address, ", ".join(addresses))
        self._core.sessions = [*addresses]
        self._failed_address = connection.address
        self._moving = True
        self._wake.set()

    def closed(self, connection: Connection, reason: str) -> None:
        """The transport: the connection ended."""
        if connection is self._connection:
            log.info("connection to %s lost: %s", connection.address, reason)
            self._connection, self._failed_address = None, connection.address
            self._core.disconnected()
            self._wake.set()
            if not self._core.closed:
                self._set_state(ClientState.CONNECTING)

    async def _stay_connected(self) -> None:
        while True:
            await self._watch(await self._reach())

    async def _reach(self) -> Connection:
        """Connect to any session server; the one that was just lost comes last."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            candidates = list(dict.fromkeys([*self._core.sessions, *self._addresses]))
            self._rng.shuffle(candidates)
            candidates.sort(key=lambda address: address == self._failed_address)
            for address in candidates:
                connection = await self._try(address)
                if connection is not None:
                    return connection
            self._changed.set()
            await self._clock.sleep(pause * self._rng.uniform(0.5, 1.0))
            pause = min(2 * pause, self._options.longest_pause_seconds)

    async def _try(self, address: str) -> Connection | None:
        hello = Hello(
            self._options.cluster,
            self.client_id,
            Role.CLIENT,
            self.client_id,
            "",
            OLDEST_PROTOCOL_VERSION,
            PROTOCOL_VERSION,
        )
        try:
            return await self._transport.connect(address, hello, self, self._options.connect_seconds)
        except Refused as error:
            self._failures[address] = str(error)
            self._refusal = error
            log.error("%s refuses this client: %s", address, error)
        except TransportError as error:
            self._failures[address] = str(error)
            self._refusal = None
            log.info("%s cannot be reached: %s", address, error)
        return None

    async def _watch(self, connection: Connection) -> None:
        """Ping until the connection ends; a server that does not answer is left for another."""
        self._moving = False
        while not connection.closed and not self._moving:
            timer = self._clock.call_later(self._options.ping_seconds, self._wake.set)
            await self._wake.wait()
            timer.cancel()
            self._wake.clear()
            if not connection.closed and not self._moving:
                self._ping(connection)

    def _ping(self, connection: Connection) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            if isinstance(error, RequestTimeout):
                connection.close(f"no answer to a ping for {self._options.silence_seconds} s")

        try:
            connection.request(Ping(), answered, self._options.silence_seconds)
        except TransportError as error:
            connection.close(f"a ping could not be sent: {error}")
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self._flush)

    def _flush_receipts(self) -> None:
        self._receipts_scheduled = False
        self._flush()

    def _flush(self) -> None:
        self._scheduled = False
        connection = self._connection
        if connection is None:
            return
        try:
            for message in self._core.outgoing():
                connection.send(message)
        except TransportError as error:
            # What was not sent is replayed over the next connection.
            connection.close(f"it does not take what is sent: {error}")

    async def _ask(self, message: Message) -> Message:
        """Ask whichever session server is connected, again where it is lost meanwhile, up to ``request_seconds``."""
        try:
            async with asyncio.timeout(self._options.request_seconds):
                reply = await self._ask_until_answered(message)
        except TimeoutError:
            raise RequestTimeout(
                f"no session server answered a {type(message).__name__} within {self._options.request_seconds} s"
                f"{self.why_not_connected() if self._connection is None else ''}"
            ) from None
        if isinstance(reply, Failed):
            raise RequestTimeout(reply.reason) if reply.code == RequestTimeout.code else ClientError(reply.reason)
        return reply

    async def _ask_until_answered(self, message: Message) -> Message:
        while True:
            await self.connected()
            connection = self._connection
            if connection is not None:
                try:
                    return await connection.ask(message, self._options.request_seconds)
                except ConnectionLost:
                    # It may be lost without our having been told yet: asking it again at once would never end.
                    await self._clock.sleep(FIRST_PAUSE_SECONDS)

    def _set_state(self, state: ClientState) -> None:
        if state is self.state:
            return
        self.state = state
        for listener in list(self._listeners):
            try:
                listener(state)
            except Exception:
                log.exception("a state listener failed")

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The connection loop never ends by itself: if it does, that is a defect, and the client says so."""
        if not task.cancelled() and task.exception() is not None:
            log.critical("the client's connection loop died", exc_info=task.exception())
            self._core.close()
            self._set_state(ClientState.CLOSED)
            self._changed.set()
            self._flushed.set()


def connect(*addresses: str, options: ClientOptions | None = None) -> Client:
    """A client of the session servers at ``addresses`` (``host:port``; one is enough, it names the others).

    Returns at once, connecting in the background; call it in a running event loop, use it as an asynchronous context
    manager or ``close()`` it.

    Raises:
        ClientError: no address. PluginError: no such transport plugin.
    """
    chosen = options if options is not None else ClientOptions()
    clock, rng = LoopClock(), random.Random(secrets.randbits(64))
    transport = build_plugin(Port.TRANSPORT, chosen.transport, Context(chosen.cluster, 0, clock, rng))
    assert isinstance(transport, Transport)
    return Client(list(addresses), chosen, transport, clock, rng)
