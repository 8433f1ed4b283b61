"""Services as the callers of a gateway see them: one subscription each, shared by all callers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar, cast

from slotreeve.clock import Clock
from slotreeve.errors import Backpressure, RequestTimeout
from slotreeve.model.data_info import DataInfo
from slotreeve_client import ConfigWatch, Provider, Subscription
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.overrides import OVERRIDES_KEY

from slotreeve_gateway.waiting import Waiters

log = logging.getLogger("slotreeve.gateway")

MOST_FORMS = 32
"""So many forms of answers about a service are kept. Callers choose filters freely, and an answer may be large."""
READY_SECONDS = 5.0
"""How long a caller waits for the first push of a service."""
T = TypeVar("T")


class ServiceWatcher(Protocol):
    """What the views need of a client."""

    def subscribe(self, service: str, on_change: Callable[[Subscription], None]) -> Subscription:
        """Watch a service."""

    def watch_config(self, key: str, on_change: Callable[[ConfigWatch], None] | None = None) -> ConfigWatch:
        """Watch a key of the provided configuration."""


class ServiceView:
    """One service, kept current by the registry. Get it from :meth:`Views.of` for each request, on the event loop.

    Attributes:
        data_info_id: the service.
        index: rises with each change of :attr:`providers`. It does not fall, also where the slot's leader changes or
            every process starts again, and two gateways give about the same one: it is the version of the datum plus
            the version of the operator's overrides.
    """

    def __init__(self, watcher: ServiceWatcher, data_info_id: str, overrides: ConfigWatch) -> None:
        self.data_info_id = data_info_id
        self.index = 0
        self._overrides = overrides
        self._waiters = Waiters()
        self._waiting = 0
        self._seen = -1
        self._made: dict[Hashable, object] = {}
        self._subscription = watcher.subscribe(data_info_id, self._changed)

    def _changed(self, subscription: Subscription) -> None:
        if self._seen == subscription.changes:
            return  # seen already in ready(): two gateways must give the same index to the same state
        self._seen = subscription.changes
        self.index = max(self.index + 1, subscription.version + self._overrides.version)
        self._made.clear()
        self._waiters.wake()

    @property
    def providers(self) -> tuple[Provider, ...]:
        """All providers, in the order of their register ids; also those that published bytes of their own."""
        return self._subscription.instances

    @property
    def instances(self) -> tuple[Instance, ...]:
        """The typed instances with the operator's overrides, in the order of their register ids."""
        return self.once("instances", lambda: tuple(p.instance for p in self.providers if p.instance is not None))

    async def changed(self, after: int, seconds: float) -> bool:
        """Wait until ``index`` is greater than ``after``; at most so many seconds. Whether it is. A gateway that is
        behind the one that gave ``after`` first catches up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        self._waiting += 1
        try:
            while self.index <= after:
                if not await self._waiters.wait(deadline - loop.time()):
                    return self.index > after
            return True
        finally:
            self._waiting -= 1

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` returns. It is called again only after the service has changed, so that an answer is encoded
        once for all who wait for it. ``key`` names the face and the form of the answer. The forms that were made last
        are kept, :data:`MOST_FORMS` of them."""
        if key not in self._made:
            made = make()
            if len(self._made) >= MOST_FORMS:
                del self._made[next(iter(self._made))]
            self._made[key] = made
        return cast(T, self._made[key])

    @property
    def is_waited_for(self) -> bool:
        """Whether a caller waits in :meth:`changed`."""
        return self._waiting > 0

    async def ready(self) -> None:
        """Wait for the first push.

        Raises:
            RequestTimeout: it did not arrive in time.
            ClientClosed: the gateway stops.
        """
        if self.index:
            return
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._subscription.ready()
        except TimeoutError:
            raise RequestTimeout(
                f"no session server has sent {self.data_info_id} within {READY_SECONDS:g} s; is one running?"
            ) from None
        if not self.index:
            self._changed(self._subscription)  # its callback comes with a later turn of the loop

    def close(self) -> None:
        """Nobody asks any more."""
        self._subscription.unsubscribe()


class Views:
    """The services that callers have asked for lately.

    Args:
        watcher: the client.
        clock: tells when nobody has asked for long.
        most: beyond so many, a further one is refused.
        idle_seconds: a view that nobody has asked for so long is closed by :meth:`sweep`.
    """

    def __init__(self, watcher: ServiceWatcher, clock: Clock, most: int, idle_seconds: float) -> None:
        self._watcher, self._clock, self._most, self._idle_seconds = watcher, clock, most, idle_seconds
        self._overrides = watcher.watch_config(OVERRIDES_KEY)
        self._views: dict[str, ServiceView] = {}
        self._asked: dict[str, float] = {}

    async def of(self, service: str) -> ServiceView:
        """The view of a service, current and ready.

        Raises:
            ModelError: the name is not good.
            Backpressure: the gateway watches too many services already.
            RequestTimeout: no session server has sent it in time.
            ClientClosed: the gateway stops.
        """
        view = self._views.get(service)
        if view is None:
            data_info_id = DataInfo.parse(service).id
            view = self._views.get(data_info_id) or self._new(data_info_id)
            service = data_info_id
        self._asked[service] = self._clock.now()
        await view.ready()
        return view

    def _new(self, data_info_id: str) -> ServiceView:
        if len(self._views) >= self._most:
            raise Backpressure(f"{self._most} services are watched already (gateway.most_services); try again later")
        view = self._views[data_info_id] = ServiceView(self._watcher, data_info_id, self._overrides)
        return view

    def sweep(self) -> None:
        """Close the views that nobody has asked for."""
        oldest = self._clock.now() - self._idle_seconds
        for name, asked in list(self._asked.items()):
            if asked < oldest and not self._views[name].is_waited_for:
                self._views.pop(name).close()
                del self._asked[name]

    @property
    def count(self) -> int:
        """Number of watched services."""
        return len(self._views)
