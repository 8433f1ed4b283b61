"""The client for threads, for programs without an event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TypeVar

from slotreeve.errors import ClientClosed, RequestTimeout
from slotreeve_protocol.client_messages import Scope

from slotreeve_client.client import Client, ClientState, connect
from slotreeve_client.configuration import ConfigWatch
from slotreeve_client.options import ClientOptions
from slotreeve_client.publication import Publication
from slotreeve_client.subscription import Instance, Subscription

T = TypeVar("T")


class BlockingPublication:
    """A publication for threads; see :class:`slotreeve_client.Publication`."""

    def __init__(self, owner: BlockingClient, publication: Publication) -> None:
        self._owner, self._publication = owner, publication

    def republish(self, *data: bytes | str) -> None:
        """Replace what is published. Raises RegistrationError, ClientClosed."""
        self._owner.call(lambda: self._publication.republish(*data))

    def unpublish(self) -> None:
        """End the registration. Raises RegistrationError, ClientClosed."""
        self._owner.call(self._publication.unpublish)

    def acknowledged(self, timeout_seconds: float) -> None:
        """Wait until the slot's leader holds it. Raises RequestTimeout, RegistrationError, ClientClosed."""
        self._owner.wait(self._publication.acknowledged(), timeout_seconds)


class BlockingSubscription:
    """A subscription for threads; see :class:`slotreeve_client.Subscription`."""

    def __init__(self, owner: BlockingClient, subscription: Subscription) -> None:
        self._owner, self._subscription = owner, subscription

    @property
    def instances(self) -> tuple[Instance, ...]:
        """All providers, by register id."""
        return self._owner.call(lambda: self._subscription.instances)

    def ready(self, timeout_seconds: float) -> None:
        """Wait for the first push. Raises RequestTimeout, ClientClosed."""
        self._owner.wait(self._subscription.ready(), timeout_seconds)

    def unsubscribe(self) -> None:
        """End it; idempotent."""
        self._owner.call(self._subscription.unsubscribe)


class BlockingConfigWatch:
    """A watched configuration key for threads; see :class:`slotreeve_client.ConfigWatch`."""

    def __init__(self, owner: BlockingClient, watch: ConfigWatch) -> None:
        self._owner, self._watch = owner, watch

    @property
    def value(self) -> bytes | None:
        """The newest known value; None if there is none."""
        return self._owner.call(lambda: self._watch.value)

    def ready(self, timeout_seconds: float) -> None:
        """Wait until the value is known. Raises RequestTimeout, ClientClosed."""
        self._owner.wait(self._watch.ready(), timeout_seconds)

    def unwatch(self) -> None:
        """End it; idempotent."""
        self._owner.call(self._watch.unwatch)


class BlockingClient:
    """A client with an event loop in a daemon thread of its own. Any thread may call it.

    Callbacks run on that thread, one at a time. They should be short. A callback that calls a blocking method of its
    own client gets ClientClosed.
    """

    def __init__(self, addresses: tuple[str, ...], options: ClientOptions | None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slotreeve client", daemon=True)
        self._thread.start()
        self._open = True

        async def start() -> Client:
            return connect(*addresses, options=options)

        try:
            self._client = self.wait(start(), 30.0)
        except BaseException:
            self._end_loop()
            raise

    def publish(self, service: str, *data: bytes | str, zone: str | None = None) -> BlockingPublication:
        """Register a provider; return at once. Raises ModelError, ClientClosed."""
        return BlockingPublication(self, self.call(lambda: self._client.publish(service, *data, zone=zone)))

    def subscribe(
        self,
        service: str,
        on_change: Callable[[tuple[Instance, ...]], None] | None = None,
        scope: Scope = Scope.DATA_CENTER,
    ) -> BlockingSubscription:
        """Watch a service. ``on_change`` gets all providers after every change. Raises ModelError, ClientClosed."""

        def changed(subscription: Subscription) -> None:
            if on_change is not None:
                on_change(subscription.instances)

        return BlockingSubscription(self, self.call(lambda: self._client.subscribe(service, changed, scope)))

    def watch_config(self, key: str, on_change: Callable[[bytes | None], None] | None = None) -> BlockingConfigWatch:
        """Watch a key of the provided configuration. ``on_change`` gets each new value. Raises ClientClosed."""

        def changed(watch: ConfigWatch) -> None:
            if on_change is not None:
                on_change(watch.value)

        return BlockingConfigWatch(self, self.call(lambda: self._client.watch_config(key, changed)))

    def get(self, service: str, timeout_seconds: float = 5.0) -> tuple[Instance, ...]:
        """The providers now. Raises ModelError, ClientClosed, RequestTimeout."""
        return self.wait(self._client.get(service), timeout_seconds)

    def list(self, prefix: str = "", timeout_seconds: float = 5.0) -> dict[str, int]:
        """Number of providers by data info id. Raises ClientClosed, RequestTimeout."""
        return self.wait(self._client.list(prefix), timeout_seconds)

    def flush(self, timeout_seconds: float) -> None:
        """Wait until the slots' leaders hold everything published so far. Raises RequestTimeout, ClientClosed."""
        self.wait(self._client.flush(), timeout_seconds)

    @property
    def state(self) -> ClientState:
        """Whether the client is connected."""
        return self._client.state

    def on_state(self, listener: Callable[[ClientState], None]) -> None:
        """Call ``listener`` on the client's thread at every change of ``state``."""
        self.call(lambda: self._client.on_state(listener))

    def close(self) -> None:
        """Close the client and end its thread. Its registrations are removed at once. Idempotent."""
        if self._open:
            self.wait(self._client.close(), 10.0)
            self._open = False
            self._end_loop()

    def __enter__(self) -> BlockingClient:
        """The client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def call(self, action: Callable[[], T]) -> T:
        """Run ``action`` on the client's event loop and return its result."""

        async def run() -> T:
            return action()

        return self.wait(run(), 10.0)

    def wait(self, coroutine: Coroutine[object, object, T], timeout_seconds: float) -> T:
        """Run ``coroutine`` on the client's event loop and return its result.

        Raises:
            RequestTimeout: it did not end in time; it was cancelled.
            ClientClosed: the client was closed, or this is the client's own thread.
            SlotreeveError: raised by the coroutine.
        """
        if not self._open or threading.current_thread() is self._thread:
            coroutine.close()
            raise ClientClosed(
                "the client was closed"
                if not self._open
                else "a callback called a blocking method of its own client; hand the work to another thread"
            )
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout_seconds)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise RequestTimeout(f"not done within {timeout_seconds} s") from None

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def connect_blocking(*addresses: str, options: ClientOptions | None = None) -> BlockingClient:
    """A client for threads; see :func:`slotreeve_client.connect`."""
    return BlockingClient(addresses, options)
