"""The client for asyncio: a thin shell around :class:`slotreeve_client.core.ClientCore`."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec
from slotreeve.clock import Clock, MachineClock
from slotreeve.errors import ClientError, Refused, RequestTimeout
from slotreeve.keys import client_id
from slotreeve.model.data_info import MAX_LENGTH
from slotreeve.model.datum import NO_VERSION
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.text import check_text
from slotreeve.ports import Context, Hello, Message, Transport
from slotreeve.ports.transport import own_name
from slotreeve_protocol.addresses import check_server_address
from slotreeve_protocol.client_messages import Datum, Get, ListedUpTo, ListServices, Scope, Services
from slotreeve_protocol.envelope import begins_like_envelope, encode_instance
from slotreeve_protocol.instance import Instance

from slotreeve_client.asking import SessionRequests
from slotreeve_client.callbacks import Callbacks
from slotreeve_client.configuration import ConfigWatch
from slotreeve_client.connector import Connector
from slotreeve_client.core import ClientCore
from slotreeve_client.dumps import read_together
from slotreeve_client.instance_publication import InstancePublication
from slotreeve_client.leases import LeaseRegistrations
from slotreeve_client.provider import Provider
from slotreeve_client.publication import Publication
from slotreeve_client.reconnect import Reconnect
from slotreeve_client.sender import Sender
from slotreeve_client.statistics import ClientStatistics
from slotreeve_client.subscription import Subscription

if TYPE_CHECKING:
    from slotreeve_client.options import ClientOptions

log = logging.getLogger("slotreeve.client")


class ClientState(StrEnum):
    """Whether the client is connected. While it is not, its copies of services stay readable and may be stale."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    CLOSED = "closed"


class Client:
    """A client of the registry. Use it from one event loop only; make it with :func:`connect`.

    It replaces a lost session server by another one and replays there everything that it published and subscribed, with
    the same ids and versions, so that no subscriber sees its registrations disappear. Where a session server stops in
    order, the client keeps the connection to it until another one has taken over everything.

    Callbacks run on the event loop. The client reads before it calls: slow callbacks wait for later turns of the loop,
    so that they hold up neither pings nor pushes. An exception in a callback, ``CancelledError`` too, is logged and
    counted (:meth:`statistics`).

    Attributes:
        client_id: unique id, drawn at random; with a key, behind the name of the key.
        state: whether the client is connected.
        leases: registrations that the registry keeps for whoever renews them.
    """

    def __init__(
        self, addresses: list[str], options: ClientOptions, transport: Transport, clock: Clock, rng: random.Random
    ) -> None:
        if not addresses:
            raise ClientError("no session server address was given; give at least one host:port")
        self.client_id = client_id(own_name(transport), f"{rng.getrandbits(64):016x}")
        self.state = ClientState.CONNECTING
        self._clock, self._zone, self._request_seconds = clock, options.zone, options.request_seconds
        self._callbacks = Callbacks(clock)
        self._late_elsewhere: Callable[[], float] = lambda: 0.0
        self._sender = Sender(clock)
        self._core = ClientCore(self.client_id, options, self._sender.flush_soon, self._callbacks)
        self._listeners: list[Callable[[ClientState], None]] = []
        hello = Hello(
            options.cluster,
            self.client_id,
            Role.CLIENT,
            # Not the id alone: another client that has the same one by mistake is told apart by it.
            f"{self.client_id}@{round(1_000_000 * clock.now())}",
            application=options.application,
        )
        reconnect = Reconnect(addresses, options.connect_seconds, options.longest_pause_seconds, rng)
        self._connector = Connector(self, transport, hello, reconnect, options, clock)
        self._requests = SessionRequests(self._connector, options.request_seconds, clock)
        self.leases = LeaseRegistrations(self._requests, self._core.names, options.zone)
        self._sender.begin(self._core, self._connector)
        self._connector.start()

    # --- for users -----------------------------------------------------------------------------------------------

    def publish(self, service: str, *data: bytes | str, zone: str | None = None) -> Publication:
        """Register a provider of ``service`` (a data id, or a whole data info id). Returns at once: the record is sent
        as soon as there is a connection, in one message with others that wait.

        Args:
            service: the service.
            data: the payload; text is encoded in UTF-8.
            zone: where the provider runs; by default the client's zone.

        Raises:
            ModelError: the name is not a valid service name, the payload is too large, or a text cannot be encoded.
            ClientClosed: the client was closed.
        """
        return self._core.publish(service, data, zone)

    def register(self, service: str, instance: Instance) -> InstancePublication:
        """Register ``instance`` as a provider of ``service`` (a data id, or a whole data info id). Returns at once, as
        :meth:`publish`. An instance without a zone gets the client's.

        Raises:
            ModelError: the name is not a valid service name, or the instance is too large.
            ClientClosed: the client was closed.
        """
        if not instance.zone and self._zone:
            instance = msgspec.structs.replace(instance, zone=self._zone)
        publication = self._core.publish(service, (encode_instance(instance),), instance.zone)
        return InstancePublication(publication, instance)

    def subscribe(
        self,
        service: str,
        on_change: Callable[[Subscription], None] | None = None,
        scope: Scope = Scope.DATA_CENTER,
    ) -> Subscription:
        """Watch ``service``. ``on_change`` is called on the event loop with the subscription: once with the first state
        and then after every change. It may see several changes as one.

        Raises:
            ModelError: the name is not a valid service name.
            ClientClosed: the client was closed.
        """
        return self._core.subscribe(service, on_change, scope)

    def watch_config(self, key: str, on_change: Callable[[ConfigWatch], None] | None = None) -> ConfigWatch:
        """Watch a key of the provided configuration (``slotreeve provide``). ``on_change`` is called on the event loop
        with the watch: once with the first state and then after every change. It may see several changes as one. Where
        the session server does not let this client watch the key, ``refused`` of the watch says why.

        Raises:
            ModelError: the key is blank, too long, or cannot be encoded.
            ClientClosed: the client was closed.
        """
        return self._core.watch_config(key, on_change)

    async def get(self, service: str) -> tuple[Provider, ...]:
        """The providers of ``service`` now, read from the leader of its slot, with the operator's overrides.

        Raises:
            ModelError: the name is not a valid service name.
            RequestTimeout: no reply in time.
            ClientError: the request failed; the message says why.
            Refused: the last session server that answered refused this client; the message says why.
            ClientClosed: the client was closed.
        """
        data_info_id = self._core.names.id_of(service)
        found: list[Publisher] = []
        version = NO_VERSION
        while True:
            reply = await self._requests.read(Get(data_info_id, len(found), version))
            if not isinstance(reply, Datum):
                raise ClientError(f"the session server answered a Get with a {type(reply).__name__}")
            if reply.version != version or found[:1] == reply.publishers[:1]:
                # The first page, or the slot's leader has only a newer list. One of release 0.1 that has dropped a list
                # begins it again.
                found, version = [], reply.version
            found += reply.publishers
            if len(found) >= reply.total or not reply.publishers:
                providers = [Provider(p.register_id, p.zone, p.data) for p in found if p.data is not None]
                if not any(begins_like_envelope(provider.data) for provider in providers):
                    return tuple(providers)
                await _known(self._core.watch_overrides(), self._request_seconds)
                overrides = self._core.services.in_force.of(data_info_id) or {}
                return tuple([provider.overridden(overrides) for provider in providers])

    async def list(self, prefix: str = "") -> dict[str, int]:
        """Number of providers by data info id, of all services whose id starts with ``prefix``.

        Raises:
            ModelError: the prefix is too long, or cannot be encoded.
            RequestTimeout, ClientError, Refused, ClientClosed: as :meth:`get`.
        """
        found: dict[str, int] = {}
        async for page in self._list_pages(prefix):
            found |= page
        return found

    async def dump(self, prefix: str = "") -> AsyncIterator[tuple[str, tuple[Provider, ...]]]:
        """Each service whose id starts with ``prefix``, by its data info id, with all of its providers as :meth:`get`
        has them: those of one service are of one moment, those of two are not. It keeps few services at a time, however
        many there are. What comes or goes meanwhile may be there or not.

        Raises:
            ModelError: the prefix is too long, or cannot be encoded.
            RequestTimeout, ClientError, Refused, ClientClosed: as :meth:`get`.
        """
        async for page in self._list_pages(prefix):
            for names in read_together(page):
                for name, providers in zip(names, await asyncio.gather(*map(self.get, names)), strict=True):
                    if providers:
                        yield name, providers

    async def _list_pages(self, prefix: str) -> AsyncIterator[dict[str, int]]:
        """Number of providers by data info id, page by page."""
        check_text("the prefix", prefix, MAX_LENGTH)
        after: ListedUpTo | None = ListedUpTo()
        while after is not None:
            reply = await self._requests.read(ListServices(prefix, after))
            if not isinstance(reply, Services):
                raise ClientError(f"the session server answered ListServices with a {type(reply).__name__}")
            yield reply.counts
            after = reply.upto

    async def flush(self) -> None:
        """Wait until the leaders of the slots hold everything that was published so far, or later versions of it. What
        is published meanwhile is not waited for, nor is what the server refuses.

        Raises:
            ClientClosed: the client was closed before.
        """
        await self._core.flushed()

    async def tried(self) -> None:
        """Wait until there is a connection, or each known address was tried once. ``async with`` waits so.

        Raises:
            Refused: no session server is there but one that refuses this client, for instance because it belongs to
                another cluster.
            ClientClosed: the client was closed.
        """
        await self._connector.tried()

    async def connected(self) -> None:
        """Wait until there is a connection.

        Raises:
            Refused: the last session server that answered refused this client. The client goes on trying.
            ClientClosed: the client was closed.
        """
        await self._connector.connected()

    def on_state(self, listener: Callable[[ClientState], None]) -> None:
        """Call ``listener`` on the event loop at every change of ``state``. An exception in it is logged."""
        self._listeners.append(listener)

    @property
    def server(self) -> str | None:
        """Address of the connected session server; None if there is none."""
        return self._connector.address

    def why_not_connected(self) -> str:
        """Why each address could not be reached, for a message; empty while there is a connection."""
        return self._connector.failures

    def callbacks_elsewhere(self, late_seconds: Callable[[], float]) -> None:
        """The user's functions run elsewhere, such as on a thread of their own. ``late_seconds`` tells how late they
        were lately, and the session server is told."""
        self._late_elsewhere = late_seconds

    def statistics(self) -> ClientStatistics:
        """What this client counted since it was made."""
        runner = self._callbacks.runner
        return ClientStatistics(
            reconnections=max(0, self._core.incarnation - 1),
            unacknowledged=self._core.unacknowledged,
            unconfirmed=self._core.wants.unconfirmed,
            rejected=self._core.postponed.rejections,
            callbacks_waiting=self._callbacks.waiting,
            callback_failures=runner.failures,
            longest_callback_seconds=runner.longest_seconds,
        )

    async def close(self) -> None:
        """Close the client. Its session server removes all its registrations at once. Idempotent. It is closed also
        where the caller does not wait for the end."""
        self._core.close()
        try:
            await self._connector.close()
        finally:
            self._set_state(ClientState.CLOSED)

    async def __aenter__(self) -> Client:
        """The client itself, once it has tried to connect. Raises as :meth:`tried`; then it is closed."""
        try:
            await self.tried()
        except (Refused, asyncio.CancelledError):
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    # --- for the connector ---------------------------------------------------------------------------------------

    def session_opened(self, process_id: str, in_another_era: bool) -> None:
        """There is a connection, to this process."""
        self._core.connected(process_id, in_another_era)
        self._set_state(ClientState.CONNECTED)

    def era_changed(self) -> None:
        """The session server counts versions in another era."""
        self._core.era_changed()

    def session_message(self, message: Message) -> None:
        """The session server sent a message."""
        self._core.received(message)
        self._sender.message_handled()

    def former_message(self, message: Message) -> None:
        """The session server that the client is leaving sent a message."""
        self._core.received_from_former(message)

    def session_closed(self) -> None:
        """The connection was lost."""
        self._core.disconnected()
        if not self._core.closed:
            self._set_state(ClientState.CONNECTING)

    def late_seconds(self) -> float:
        """See :class:`slotreeve_client.connector.ConnectorOwner`."""
        return max(self._callbacks.late.seconds(), self._late_elsewhere())

    def ping_sent(self) -> None:
        """A ping was sent to the session server."""
        self._core.wants.ping_sent()

    def ping_answered(self) -> None:
        """The session server has read everything sent before the ping."""
        self._core.ping_answered()

    def connector_failed(self) -> None:
        """There will be no further connection: close."""
        self._core.close()
        self._set_state(ClientState.CLOSED)

    def _set_state(self, state: ClientState) -> None:
        if state is self.state:
            return
        self.state = state
        for listener in list(self._listeners):
            try:
                listener(state)
            except (Exception, asyncio.CancelledError):
                log.exception("a listener of the client's state failed")


async def _known(watch: ConfigWatch, seconds: float) -> None:
    """Wait until the value of a watch is known. Raises RequestTimeout, ClientClosed."""
    try:
        async with asyncio.timeout(seconds):
            await watch.ready()
    except TimeoutError:
        raise RequestTimeout(f"the session server did not send {watch.key} within {seconds:g} s") from None


def connect(*addresses: str, options: ClientOptions | None = None) -> Client:
    """A client of the session servers at ``addresses`` (``host:port``; with keys ``name@host:port``). One address is
    enough: the client learns the others from that server.

    Returns at once and connects in the background. Call it on a running event loop. Use the client as an asynchronous
    context manager or ``close()`` it.

    Raises:
        ClientError: no address was given.
        PluginError: there is no such transport plugin.
        ConfigError: an address is none, or a file of keys cannot be used.
    """
    for address in addresses:
        check_server_address(address)
    # They need pydantic and pluggy, for which a program that does not connect should not wait.
    from slotreeve.catalogue import build_plugin
    from slotreeve.key_files import load_keys
    from slotreeve.offers import Port

    from slotreeve_client.options import ClientOptions

    chosen = options if options is not None else ClientOptions()
    clock, rng = MachineClock(), random.Random(secrets.randbits(64))
    keys = load_keys(chosen.own_key, chosen.trusted_keys)
    transport = build_plugin(Port.TRANSPORT, chosen.transport, Context(chosen.cluster, 0, clock, rng, keys=keys))
    assert isinstance(transport, Transport)
    return Client(list(addresses), chosen, transport, clock, rng)
