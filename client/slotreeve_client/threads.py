"""The client for threads, for programs without an event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, Unpack

from slotreeve.errors import ClientClosed, RequestTimeout
from slotreeve_protocol.client_messages import Scope
from slotreeve_protocol.instance import Health, Instance, InstanceChanges

from slotreeve_client.blocking_leases import BlockingLeases
from slotreeve_client.callback_thread import CallbackThread
from slotreeve_client.callbacks import check_callback
from slotreeve_client.client import Client, ClientState, connect
from slotreeve_client.configuration import ConfigWatch
from slotreeve_client.instance_publication import InstancePublication
from slotreeve_client.provider import Provider
from slotreeve_client.publication import Publication
from slotreeve_client.selection import Filter, Selection
from slotreeve_client.statistics import ClientStatistics
from slotreeve_client.subscription import Subscription

if TYPE_CHECKING:
    from slotreeve_client.options import ClientOptions

T = TypeVar("T")
log = logging.getLogger("slotreeve.client")

CLOSED = "the client was closed"
START_SECONDS = 30.0
"""Longest time to make a client, and to try each address once."""


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


class BlockingInstancePublication:
    """A registered instance for threads; see :class:`slotreeve_client.InstancePublication`."""

    def __init__(self, owner: BlockingClient, registered: InstancePublication) -> None:
        self._owner, self._registered = owner, registered

    @property
    def instance(self) -> Instance:
        """The instance now."""
        return self._owner.call(lambda: self._registered.instance)

    def update(self, **changes: Unpack[InstanceChanges]) -> None:
        """Give these fields other values. Raises ModelError, RegistrationError, ClientClosed."""
        self._owner.call(lambda: self._registered.update(**changes))

    def set_health(self, health: Health, note: str = "") -> None:
        """Say how the instance is, and for people why. Raises as :meth:`update`."""
        self._owner.call(lambda: self._registered.set_health(health, note))

    def unpublish(self) -> None:
        """End the registration. Raises RegistrationError, ClientClosed."""
        self._owner.call(self._registered.unpublish)

    def acknowledged(self, timeout_seconds: float) -> None:
        """Wait until the slot's leader holds it. Raises RequestTimeout, RegistrationError, ClientClosed."""
        self._owner.wait(self._registered.acknowledged(), timeout_seconds)


class BlockingSubscription:
    """A subscription for threads; see :class:`slotreeve_client.Subscription`."""

    def __init__(self, owner: BlockingClient, subscription: Subscription) -> None:
        self._owner, self._subscription = owner, subscription

    @property
    def instances(self) -> tuple[Provider, ...]:
        """All providers, by register id."""
        return self._owner.call(lambda: self._subscription.instances)

    @property
    def changes(self) -> int:
        """Rises with each change of :attr:`instances`. Does not wait for the client's event loop. Raises
        ClientClosed."""
        self._owner.check_open()
        return self._subscription.changes

    def select(self, chosen: Filter | None = None) -> Selection:
        """Those of :attr:`instances` that a filter admits, by default the enabled ones that are not critical."""
        return Selection(self, chosen if chosen is not None else Filter())

    @property
    def has_ended(self) -> bool:
        """Whether it was closed, or the service is not pushed to this client: then :meth:`ready` says why. Does not
        wait for the client's event loop. Raises ClientClosed."""
        self._owner.check_open()
        return self._subscription.has_ended

    def ready(self, timeout_seconds: float) -> None:
        """Wait for the first push. Raises RequestTimeout, RegistrationError, ClientClosed."""
        self._owner.wait(self._subscription.ready(), timeout_seconds)

    def unsubscribe(self) -> None:
        """End it; idempotent."""
        self._owner.call_if_open(self._subscription.unsubscribe)


class BlockingConfigWatch:
    """A watched configuration key for threads; see :class:`slotreeve_client.ConfigWatch`."""

    def __init__(self, owner: BlockingClient, watch: ConfigWatch) -> None:
        self._owner, self._watch = owner, watch

    @property
    def value(self) -> bytes | None:
        """The newest known value; None if there is none."""
        return self._owner.call(lambda: self._watch.value)

    def ready(self, timeout_seconds: float) -> None:
        """Wait until the value is known. Raises RequestTimeout, RegistrationError, ClientClosed."""
        self._owner.wait(self._watch.ready(), timeout_seconds)

    def unwatch(self) -> None:
        """End it; idempotent."""
        self._owner.call_if_open(self._watch.unwatch)


class BlockingClient:
    """A client with an event loop in a daemon thread of its own. Any thread may call it.

    Callbacks run one at a time, on another thread of their own, and may call the client. A slow callback delays only
    other callbacks. Any exception in a callback is logged and counted, ``SystemExit`` too.

    A process that was forked from the one that made the client cannot use it: every method raises ClientClosed there,
    except :meth:`close`, which does nothing.
    """

    def __init__(self, addresses: tuple[str, ...], options: ClientOptions | None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="slotreeve client", daemon=True)
        self._thread.start()
        self._open, self._is_closing = True, False
        self._closing = threading.RLock()
        self._pid = os.getpid()
        self._callbacks = CallbackThread(self._loop.time)
        self._why_not_connected: Callable[[], str] = lambda: "; the client could not be made"

        async def start() -> Client:
            client = connect(*addresses, options=options)
            client.callbacks_elsewhere(self._callbacks.late_seconds)
            return client

        try:
            self._client = self.wait(start(), START_SECONDS)
            self._why_not_connected = self._client.why_not_connected
        except BaseException:
            self._callbacks.close()
            self._end_loop()
            raise

    def publish(self, service: str, *data: bytes | str, zone: str | None = None) -> BlockingPublication:
        """Register a provider; return at once. Raises ModelError, ClientClosed."""
        return BlockingPublication(self, self.call(lambda: self._client.publish(service, *data, zone=zone)))

    def register(self, service: str, instance: Instance) -> BlockingInstancePublication:
        """Register an instance; return at once. Raises ModelError, ClientClosed."""
        return BlockingInstancePublication(self, self.call(lambda: self._client.register(service, instance)))

    def subscribe(
        self,
        service: str,
        on_change: Callable[[tuple[Provider, ...]], None] | None = None,
        scope: Scope = Scope.DATA_CENTER,
    ) -> BlockingSubscription:
        """Watch a service. ``on_change`` gets all providers after every change. Raises ModelError, ClientClosed."""
        check_callback(on_change)

        def changed(subscription: Subscription) -> None:
            if on_change is not None:
                instances = subscription.instances
                self._call_back(subscription, partial(on_change, instances))

        return BlockingSubscription(self, self.call(lambda: self._client.subscribe(service, changed, scope)))

    def watch_config(self, key: str, on_change: Callable[[bytes | None], None] | None = None) -> BlockingConfigWatch:
        """Watch a key of the provided configuration. ``on_change`` gets each new value. Raises ModelError,
        ClientClosed."""
        check_callback(on_change)

        def changed(watch: ConfigWatch) -> None:
            if on_change is not None:
                self._call_back(watch, partial(on_change, watch.value))

        return BlockingConfigWatch(self, self.call(lambda: self._client.watch_config(key, changed)))

    @property
    def leases(self) -> BlockingLeases:
        """Registrations that the registry keeps for whoever renews them."""
        return BlockingLeases(self, self._client.leases)

    def _call_back(self, source: Subscription | ConfigWatch, function: Callable[[], None]) -> None:
        """Run ``function`` on the thread of callbacks, unless its source has ended by then."""
        self._callbacks.submit(source, source.label, lambda: None if source.has_ended else function())

    def get(self, service: str, timeout_seconds: float = 5.0) -> tuple[Provider, ...]:
        """The providers now. Raises as :meth:`slotreeve_client.Client.get`."""
        return self.wait(self._client.get(service), timeout_seconds)

    def list(self, prefix: str = "", timeout_seconds: float = 5.0) -> dict[str, int]:
        """Number of providers by data info id. Raises as :meth:`slotreeve_client.Client.list`."""
        return self.wait(self._client.list(prefix), timeout_seconds)

    def flush(self, timeout_seconds: float) -> None:
        """Wait until the slots' leaders hold everything published so far. Raises RequestTimeout, ClientClosed."""
        self.wait(self._client.flush(), timeout_seconds)

    @property
    def state(self) -> ClientState:
        """Whether the client is connected. Raises ClientClosed in a process that was forked."""
        self._check_process()
        return self._client.state

    def on_state(self, listener: Callable[[ClientState], None]) -> None:
        """Call ``listener`` on the thread of callbacks at every change of ``state``; of several that wait for a slow
        callback it is told the newest."""
        source = object()

        def changed(state: ClientState) -> None:
            self._callbacks.submit(source, "a listener of the client's state", partial(listener, state))

        self.call(lambda: self._client.on_state(changed))

    def statistics(self) -> ClientStatistics:
        """What this client counted since it was made. Raises ClientClosed in a process that was forked."""
        self._check_process()
        runner = self._callbacks.runner
        return replace(
            self._client.statistics(),
            callbacks_waiting=self._callbacks.waiting,
            callback_failures=runner.failures,
            longest_callback_seconds=runner.longest_seconds,
        )

    def close(self) -> None:
        """Close the client and end its threads. Its registrations are removed at once. Idempotent: of several threads
        that call it, one closes and all return after that. A callback may call it; callbacks that run go on. A signal
        handler may: where it has interrupted this very method, it returns at once."""
        if os.getpid() != self._pid:
            return  # the client belongs to the process that this one was forked from
        with self._closing:
            if self._open and not self._is_closing:
                self._is_closing = True
                try:
                    self.wait(self._client.close(), 10.0)
                finally:
                    self._open = False
                    self._callbacks.close()
                    self._end_loop()

    def __enter__(self) -> BlockingClient:
        """The client itself, once it has tried to connect.

        Raises:
            Refused: a session server refuses this client, which is closed then.
        """
        try:
            self.wait(self._client.tried(), START_SECONDS)
        except RequestTimeout as error:
            log.warning("no session server has answered yet; the client goes on trying: %s", error)
        except BaseException:
            self.close()
            raise
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
            ClientClosed: the client was closed, or was made before this process was forked, or this is the thread of
                the client's event loop.
            SlotreeveError: raised by the coroutine.
        """
        reason = self._why_unusable()
        if reason:
            coroutine.close()
            raise ClientClosed(reason)
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # another thread has closed the loop just now
            coroutine.close()
            raise ClientClosed(CLOSED) from None
        try:
            return future.result(timeout_seconds)
        except concurrent.futures.CancelledError:
            raise ClientClosed(CLOSED) from None
        except concurrent.futures.TimeoutError:
            if not future.cancel():
                return future.result()  # it has ended just now
            raise RequestTimeout(f"not done within {timeout_seconds} s{self._why_not_connected()}") from None
        except BaseException:  # of the coroutine; or of a signal handler, and nobody waits for the coroutine any more
            future.cancel()
            raise

    def call_if_open(self, action: Callable[[], None]) -> None:
        """As :meth:`call`; nothing where the client was closed."""
        try:
            self.call(action)
        except ClientClosed:
            if self._open and os.getpid() == self._pid:
                raise

    def check_open(self) -> None:
        """Raise ClientClosed where the client was closed, or belongs to the process that this one was forked from."""
        self._check_process()
        if not self._open:
            raise ClientClosed(CLOSED)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise ClientClosed(
                f"process {self._pid} made this client before it was forked; make another one in each process"
            )

    def _why_unusable(self) -> str:
        try:
            self._check_process()
        except ClientClosed as error:
            return str(error)
        if threading.current_thread() is self._thread:
            return "the client's own event loop called a blocking method of it; hand the work to another thread"
        return "" if self._open else CLOSED

    def _run_loop(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(_cancel_all())  # what other threads still wait for ends with ClientClosed
        finally:
            self._loop.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def connect_blocking(*addresses: str, options: ClientOptions | None = None) -> BlockingClient:
    """A client for threads; see :func:`slotreeve_client.connect`."""
    return BlockingClient(addresses, options)
