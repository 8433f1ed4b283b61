"""A channel of ``grpc.aio`` whose calls go to the instances of a service. Needs the package grpcio::

    async with ServiceChannel(client, "com.example.Greeter") as channel:
        stub = GreeterStub(channel)
        await stub.Hello(HelloRequest())

grpcio has no public way to add a resolver in Python, so gRPC's own name resolution and load balancing are not used:
there is one channel for each instance, and each call chooses one of them. Only who imports this module imports grpc.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Any

import grpc
import grpc.aio
from slotreeve.errors import RequestTimeout

from slotreeve_client.choosers import WeightedRandom
from slotreeve_client.client import Client
from slotreeve_client.routes import MakeChooser, Route, speaks
from slotreeve_client.selection import Filter, ProviderSource
from slotreeve_client.subscription import Subscription

SCHEME = "grpc"
GRACE_SECONDS = 30.0
READY_SECONDS = 5.0
FAILING = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)


class ServiceChannel(grpc.aio.Channel):
    """One channel to all instances of a service, for generated stubs. Make it on a running event loop.

    Each call goes to an enabled instance that is not critical, whose scheme is ``grpc`` or empty, and whose channel
    does not fail at the moment, if there is one. A call that fails is not repeated. The channel of an instance that
    leaves the service gets no further call, and is closed after the grace unless the instance is back by then.

    Args:
        client: a client of the registry; it stays open.
        service: the name of the service.
        chosen: which instances are wanted; by default the enabled ones that are not critical.
        choose: makes the chooser; by default :class:`slotreeve_client.WeightedRandom`.
        make_channel: makes the channel to one ``host:port``, for TLS or options; by default one without TLS.
        grace_seconds: how long calls to an instance that has left may go on.
        ready_seconds: how long its entry waits for the first push of the service.

    Raises:
        ModelError: the name is not a valid service name.
        ClientClosed: the client was closed.
    """

    def __init__(
        self,
        client: Client,
        service: str,
        *,
        chosen: Filter | None = None,
        choose: MakeChooser | None = None,
        make_channel: Callable[[str], grpc.aio.Channel] = grpc.aio.insecure_channel,
        grace_seconds: float = GRACE_SECONDS,
        ready_seconds: float = READY_SECONDS,
    ) -> None:
        self._service, self._make_channel = service, make_channel
        self._grace, self._ready_seconds = grace_seconds, ready_seconds
        self._channels: dict[str, grpc.aio.Channel] = {}
        # By endpoint: instances that have left, and whose calls may go on for a while.
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        self._subscription = client.subscribe(service, self._changed)
        self._route = Route(self._subscription.select(chosen), SCHEME, choose or _weighted)

    def pick(self) -> grpc.aio.Channel:
        """The channel to the instance that the next call goes to.

        Raises:
            grpc.aio.AioRpcError: UNAVAILABLE, there is no instance; FAILED_PRECONDITION, the service is not pushed to
                this client; CANCELLED, this channel was closed.
        """
        if self._closed:
            raise _error(grpc.StatusCode.CANCELLED, f"the channel to {self._service} was closed")
        if self._subscription.error is not None:
            raise _error(grpc.StatusCode.FAILED_PRECONDITION, str(self._subscription.error))
        tried: list[str] = []
        failing: grpc.aio.Channel | None = None
        while (provider := self._route.choose(tried)) is not None:
            instance = provider.instance
            assert instance is not None
            channel = self._channels.get(instance.endpoint)
            if channel is None:
                channel = self._channels[instance.endpoint] = self._make_channel(instance.endpoint)
            if channel.get_state(try_to_connect=True) not in FAILING:
                return channel
            failing = failing or channel
            tried.append(provider.register_id)
        if failing is None:
            raise _error(grpc.StatusCode.UNAVAILABLE, f"no instance of {self._service} can be called by grpc")
        return failing

    def _changed(self, subscription: Subscription) -> None:
        providers = [provider for provider in subscription.instances if speaks(provider, SCHEME)]
        there = {provider.instance.endpoint for provider in providers if provider.instance is not None}
        for endpoint in there & self._leaving.keys():
            self._leaving.pop(endpoint).cancel()
        for endpoint in self._channels.keys() - there - self._leaving.keys():
            self._leaving[endpoint] = asyncio.get_running_loop().create_task(
                self._close_later(endpoint), name=f"close a channel of {self._service}"
            )

    async def _close_later(self, endpoint: str) -> None:
        await asyncio.sleep(self._grace)
        await self._channels.pop(endpoint).close()
        del self._leaving[endpoint]

    # --- grpc.aio.Channel ----------------------------------------------------------------------------------------

    async def __aenter__(self) -> ServiceChannel:
        """Wait for the first push of the service. Raises RequestTimeout, RegistrationError, ClientClosed."""
        try:
            await self.channel_ready()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Close the channels of all instances; calls that are open have ``grace`` seconds, by default none."""
        self._closed = True
        self._subscription.unsubscribe()
        channels = [*self._channels.values()]
        self._channels.clear()
        leaving = [*self._leaving.values()]
        self._leaving.clear()
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, *(channel.close(grace) for channel in channels), return_exceptions=True)

    async def channel_ready(self) -> None:
        """Wait until it is known who provides the service. Raises RequestTimeout, RegistrationError, ClientClosed."""
        try:
            async with asyncio.timeout(self._ready_seconds):
                await self._subscription.ready()
        except TimeoutError:
            raise RequestTimeout(
                f"the registry did not say within {self._ready_seconds:g} s who provides {self._service}"
            ) from None

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """READY if an instance's channel is, else the state of the one that the next call would take."""
        if self._closed:
            return grpc.ChannelConnectivity.SHUTDOWN
        states = [channel.get_state() for channel in self._channels.values()]
        if grpc.ChannelConnectivity.READY in states:
            return grpc.ChannelConnectivity.READY
        return states[0] if states else grpc.ChannelConnectivity.IDLE

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Not offered: the instances have a state each. Raises NotImplementedError."""
        raise NotImplementedError("a service has no state that can be waited for; subscribe to it instead")

    def unary_unary(self, method: str, *how: Any, **named: Any) -> Any:
        """See grpc.aio.Channel."""
        return _Calls(self, "unary_unary", method, how, named)

    def unary_stream(self, method: str, *how: Any, **named: Any) -> Any:
        """See grpc.aio.Channel."""
        return _Calls(self, "unary_stream", method, how, named)

    def stream_unary(self, method: str, *how: Any, **named: Any) -> Any:
        """See grpc.aio.Channel."""
        return _Calls(self, "stream_unary", method, how, named)

    def stream_stream(self, method: str, *how: Any, **named: Any) -> Any:
        """See grpc.aio.Channel."""
        return _Calls(self, "stream_stream", method, how, named)


class _Calls:
    """One method of the service: each call of it chooses an instance."""

    def __init__(self, owner: ServiceChannel, kind: str, method: str, how: tuple[Any, ...], named: dict[str, Any]):
        self._owner, self._kind, self._method, self._how, self._named = owner, kind, method, how, named

    def __call__(self, *request: Any, **options: Any) -> Any:
        call = getattr(self._owner.pick(), self._kind)(self._method, *self._how, **self._named)
        return call(*request, **options)


def _weighted(source: ProviderSource) -> WeightedRandom:
    return WeightedRandom(source, random.Random(secrets.randbits(64)))


def _error(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)
