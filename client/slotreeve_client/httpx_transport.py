"""Transports for httpx that send requests for services to their instances. Needs the package httpx::

    transport = SlotreeveTransport(client, "com.example.Greeter")
    async with httpx.AsyncClient(transport=transport) as http:
        await http.get("http://com.example.Greeter/hello")

Only who imports this module imports httpx.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Mapping
from typing import Protocol

import httpx
from slotreeve.errors import ModelError, RequestTimeout, SlotreeveError

from slotreeve_client.choosers import WeightedRandom
from slotreeve_client.client import Client
from slotreeve_client.provider import Provider
from slotreeve_client.routes import IDEMPOTENT, MakeChooser, Route
from slotreeve_client.selection import Filter, ProviderSource, Selection
from slotreeve_client.threads import BlockingClient

ATTEMPTS = 3
READY_SECONDS = 5.0
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
"""With these nothing of the request has left this process."""
PERHAPS_SENT = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)
"""With these the instance may have carried the request out."""


class ServiceSource(ProviderSource, Protocol):
    """A subscription, or one for threads."""

    def select(self, chosen: Filter | None = None) -> Selection:
        """Those that a filter admits."""


class _Routes:
    """The routes to the services of a transport, by the host and scheme of a request."""

    def __init__(self, sources: Mapping[str, ServiceSource], chosen: Filter | None, choose: MakeChooser | None) -> None:
        self._sources, self._chosen, self._choose = sources, chosen, choose or _weighted
        self._made: dict[tuple[str, str], Route] = {}

    def to(self, host: str, scheme: str) -> Route:
        found = self._made.get((host, scheme))
        if found is None:
            selected = self._sources[host].select(self._chosen)
            found = self._made[host, scheme] = Route(selected, scheme, self._choose)
        return found


def _by_host(services: tuple[str, ...]) -> dict[str, str]:
    """The names of services by host, as httpx writes hosts: in small letters and by IDNA. Raises ModelError."""
    try:
        names = {httpx.URL("http://", host=service).host: service for service in services}
    except httpx.InvalidURL as error:
        raise ModelError(f"one of the services {', '.join(services)} cannot be a host: {error}") from None
    if len(names) < len({*services}):
        raise ModelError(f"two of the services {', '.join(services)} differ in capitals only; hosts have none")
    return names


class _Attempts:
    """One request, and the instances that it was sent to."""

    def __init__(self, request: httpx.Request, service: str, route: Route, most: int) -> None:
        self._request, self._service, self._route, self._most = request, service, route, most
        self._tried: list[str] = []
        self._error: httpx.RequestError | None = None

    def next(self) -> httpx.Request:
        """The request to the next instance. Raises httpx.RequestError: there is none (any more) to send it to."""
        provider = self._route.choose(self._tried) if len(self._tried) < self._most else None
        if provider is None:
            if self._error is not None:
                raise self._error
            raise httpx.ConnectError(
                f"no instance of {self._service} can be called by {self._request.url.scheme}", request=self._request
            )
        self._tried.append(provider.register_id)
        return _sent_to(self._request, provider)

    def failed(self, error: httpx.RequestError) -> None:
        """An attempt has failed. Raises the error, unless the request may be sent to another instance."""
        error.request = self._request
        if isinstance(error, NOT_SENT) or (
            isinstance(error, PERHAPS_SENT)
            and self._request.method in IDEMPOTENT
            and isinstance(self._request.stream, httpx.ByteStream)  # another stream cannot be sent twice
        ):
            self._error = error
        else:
            raise error


class SlotreeveTransport(httpx.AsyncBaseTransport):
    """Sends requests whose host is the name of a service to an instance of it, and all others as httpx does.

    Only enabled instances that are not critical get requests, only those of the request's scheme or of none, and those
    of weight 0 only if all have it. A request that was not sent because the instance could not be reached goes to
    another one. One that may have been carried out does so only if its method is idempotent and its body is at hand.
    Answers are never repeated, whatever their status, nor are requests whose answer does not come in time.

    Make it on a running event loop. Closing it ends its subscriptions; the client stays open.

    Args:
        client: a client of the registry.
        services: the names of the services. Hosts have no capitals, so no two may differ in them only.
        chosen: which instances are wanted; by default the enabled ones that are not critical.
        choose: makes the chooser of a service; by default :class:`slotreeve_client.WeightedRandom`.
        attempts: to how many instances a request is sent at most.
        ready_seconds: how long a request waits for the first push of its service.
        inner: sends the requests; by default httpx's own transport. It is closed with this one.

    Raises:
        ModelError: a name is not a valid service name, or two differ in capitals only.
        ClientClosed: the client was closed.
    """

    def __init__(
        self,
        client: Client,
        *services: str,
        chosen: Filter | None = None,
        choose: MakeChooser | None = None,
        attempts: int = ATTEMPTS,
        ready_seconds: float = READY_SECONDS,
        inner: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._inner = inner if inner is not None else httpx.AsyncHTTPTransport()
        self._attempts, self._ready_seconds = attempts, ready_seconds
        self._names = _by_host(services)
        self._subscriptions = {host: client.subscribe(name) for host, name in self._names.items()}
        self._routes = _Routes(self._subscriptions, chosen, choose)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx. Raises httpx.RequestError."""
        host = request.url.host
        if host not in self._names:
            return await self._inner.handle_async_request(request)
        service = self._names[host]
        await self._ready(host, service, request)
        attempts = _Attempts(request, service, self._routes.to(host, request.url.scheme), self._attempts)
        while True:
            sent = attempts.next()
            try:
                return await self._inner.handle_async_request(sent)
            except httpx.RequestError as error:
                attempts.failed(error)

    async def _ready(self, host: str, service: str, request: httpx.Request) -> None:
        try:
            subscription = self._subscriptions[host]
            if not subscription.is_ready or subscription.has_ended:
                async with asyncio.timeout(self._ready_seconds):
                    await subscription.ready()
        except TimeoutError:
            raise _not_known(service, self._ready_seconds, request) from None
        except SlotreeveError as error:
            raise httpx.ConnectError(f"{service}: {error}", request=request) from error

    async def aclose(self) -> None:
        """End the subscriptions, and close the inner transport."""
        for subscription in self._subscriptions.values():
            subscription.unsubscribe()
        await self._inner.aclose()


class BlockingSlotreeveTransport(httpx.BaseTransport):
    """:class:`SlotreeveTransport` for threads: ``httpx.Client(transport=BlockingSlotreeveTransport(client, name))``.

    Args:
        client: a blocking client of the registry. All else: see :class:`SlotreeveTransport`.
    """

    def __init__(
        self,
        client: BlockingClient,
        *services: str,
        chosen: Filter | None = None,
        choose: MakeChooser | None = None,
        attempts: int = ATTEMPTS,
        ready_seconds: float = READY_SECONDS,
        inner: httpx.BaseTransport | None = None,
    ) -> None:
        self._inner = inner if inner is not None else httpx.HTTPTransport()
        self._attempts, self._ready_seconds = attempts, ready_seconds
        self._names = _by_host(services)
        self._subscriptions = {host: client.subscribe(name) for host, name in self._names.items()}
        self._routes = _Routes(self._subscriptions, chosen, choose)
        self._ready_hosts: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx. Raises httpx.RequestError."""
        host = request.url.host
        if host not in self._names:
            return self._inner.handle_request(request)
        service = self._names[host]
        try:
            if host not in self._ready_hosts or self._subscriptions[host].has_ended:
                self._subscriptions[host].ready(self._ready_seconds)
                self._ready_hosts.add(host)
            attempts = _Attempts(request, service, self._routes.to(host, request.url.scheme), self._attempts)
            while True:
                sent = attempts.next()
                try:
                    return self._inner.handle_request(sent)
                except httpx.RequestError as error:
                    attempts.failed(error)
        except RequestTimeout:
            raise _not_known(service, self._ready_seconds, request) from None
        except SlotreeveError as error:
            raise httpx.ConnectError(f"{service}: {error}", request=request) from error

    def close(self) -> None:
        """End the subscriptions, and close the inner transport."""
        for subscription in self._subscriptions.values():
            subscription.unsubscribe()
        self._inner.close()


def _weighted(source: ProviderSource) -> WeightedRandom:
    return WeightedRandom(source, random.Random(secrets.randbits(64)))


def _sent_to(request: httpx.Request, provider: Provider) -> httpx.Request:
    """The same request to an instance: its address and port stand in the URL and in the header Host."""
    instance = provider.instance
    assert instance is not None
    url = request.url.copy_with(host=instance.address, port=instance.port)
    headers = request.headers.copy()
    headers["Host"] = url.netloc.decode("ascii")
    extensions: Mapping[str, object] = request.extensions
    return httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions={**extensions})


def _not_known(service: str, seconds: float, request: httpx.Request) -> httpx.ConnectTimeout:
    return httpx.ConnectTimeout(
        f"the registry did not say within {seconds:g} s who provides {service}", request=request
    )
