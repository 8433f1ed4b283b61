"""Services as the callers of a gateway see them: one subscription each, shared by all callers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Protocol, TypeVar, cast

from slotreeve.clock import Clock
from slotreeve.errors import Backpressure, RequestTimeout
from slotreeve.model.data_info import DataInfo
from slotreeve_client import ConfigWatch, Provider, Subscription
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.leases import lease_id_of
from slotreeve_protocol.overrides import OVERRIDES_KEY

from slotreeve_gateway.waiting import Waiters

log = logging.getLogger("slotreeve.gateway")

MOST_FORMS = 32
"""So many forms of answers about a service are kept. Callers choose filters freely, and an answer may be large."""
STEPS = 256
"""Changes of what is late that find room in the index between two versions of a service."""
LOOKED_AT = 256
"""So many views are looked at for one that can be closed."""
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
        index: rises with each change of :attr:`providers` and :attr:`late`. It does not fall, also where the slot's
            leader changes or every process starts again, and two gateways give about the same one: it is the version
            of the datum plus the version of the operator's overrides, where a service is watched beside it times
            :data:`STEPS`. The version of what is beside it does not count: gateways may know it differently, because
            nobody is told of a new version of what has not changed. Only where the cluster has lost what it counted,
            and the version of the datum begins anew, does the index, too.
    """

    def __init__(self, watcher: ServiceWatcher, data_info_id: str, overrides: ConfigWatch, beside: str = "") -> None:
        self.data_info_id = data_info_id
        self.index = 0
        self._version = self._beginnings = 0
        self._overrides = overrides
        self._waiters = Waiters()
        self._waiting = 0
        self._seen: tuple[int, ...] = ()
        self._late: frozenset[str] = frozenset()
        self._made: dict[Hashable, object] = {}
        self._yielded = ""
        self._names = (data_info_id, beside) if beside else (data_info_id,)
        self._subscriptions: tuple[Subscription, ...] = ()
        for name in self._names:
            # What the client knows already, it tells at once.
            self._subscriptions += (watcher.subscribe(name, lambda _: self._changed()),)

    def _changed(self) -> None:
        changes = tuple(subscription.changes for subscription in self._subscriptions if subscription.is_ready)
        if self._seen == changes or len(changes) < len(self._names):
            return  # seen already in ready(): two gateways must give the same index to the same state
        before, late_before, self._seen = self._seen, self._late, changes
        self._made.clear()
        self._late = frozenset(provider.register_id for provider in self.late)
        if before[:1] != changes[:1]:
            provided = self._subscriptions[0].version or self._version  # 0 while the whole service is asked for again
            if provided < self._version:
                self.index, self._beginnings = 0, self._beginnings + 1
            self._version, version = provided, provided + self._overrides.version
            self.index = max(self.index + 1, version * STEPS if len(changes) > 1 else version)
        elif self._late != late_before:
            self.index += 1
        else:
            return
        self._waiters.wake()

    @property
    def providers(self) -> tuple[Provider, ...]:
        """All providers, in the order of their register ids; also those that published bytes of their own."""
        return self._subscriptions[0].instances

    @property
    def beside(self) -> tuple[Provider, ...]:
        """The providers of the service that is watched beside this one; none where there is no such service."""
        return self._subscriptions[1].instances if len(self._subscriptions) > 1 else ()

    @property
    def late(self) -> tuple[Provider, ...]:
        """Those of :attr:`beside` whose lease id no provider of the service itself has."""
        return self.once("late", self._find_late) if len(self._subscriptions) > 1 else ()

    def _find_late(self) -> tuple[Provider, ...]:
        there = {lease_id_of(provider.register_id) for provider in self.providers}
        return tuple(provider for provider in self.beside if lease_id_of(provider.register_id) not in there)

    @property
    def instances(self) -> tuple[Instance, ...]:
        """The typed instances with the operator's overrides, in the order of their register ids."""
        return self.once("instances", lambda: tuple(p.instance for p in self.providers if p.instance is not None))

    async def changed(self, after: int, seconds: float) -> bool:
        """Wait until ``index`` is greater than ``after``, or begins anew; at most so many seconds. Whether that has
        happened. A gateway that is behind the one that gave ``after`` first catches up.

        Raises:
            As :meth:`ready`, once nothing changes any more.
            Backpressure: the view has been closed in favour of another service.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        self._waiting += 1
        beginnings = self._beginnings
        try:
            while self.index <= after and beginnings == self._beginnings:
                if self._yielded:
                    raise Backpressure(self._yielded)
                for subscription in self._subscriptions if self.has_ended else ():
                    await subscription.ready()  # it says why
                if not await self._waiters.wait(deadline - loop.time()):
                    return self.index > after or beginnings != self._beginnings
            return True
        finally:
            self._waiting -= 1

    async def until(self, check: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``check`` holds, which is asked again after each change; at most so many seconds. Whether it
        does."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not check():
            if not await self.changed(self.index, deadline - loop.time()):
                return check()
        return True

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

    @property
    def has_ended(self) -> bool:
        """Whether the session server no longer pushes the service, or what is beside it: nothing changes any more."""
        return any(subscription.has_ended for subscription in self._subscriptions)

    async def ready(self) -> None:
        """Wait for the first push.

        Raises:
            RegistrationError: the session server does not push the service; the message says why.
            RequestTimeout: it did not arrive in time.
            ClientClosed: the gateway stops.
        """
        if self.index:
            return
        try:
            async with asyncio.timeout(READY_SECONDS):
                for subscription in self._subscriptions:
                    await subscription.ready()
        except TimeoutError:
            raise RequestTimeout(
                f"no session server has sent {self.data_info_id} within {READY_SECONDS:g} s; is one running?"
            ) from None
        if not self.index:
            self._changed()  # its callback comes with a later turn of the loop

    def yields(self, why: str) -> None:
        """Another service is watched instead. ``why`` is told to those who hold this view and wait."""
        self._yielded = why
        self.close()

    def close(self) -> None:
        """Nobody asks any more, or nothing changes any more, which is told to those who wait."""
        for subscription in self._subscriptions:
            subscription.unsubscribe()
        self._waiters.wake()


class Views:
    """The services that callers have asked for lately.

    Args:
        watcher: the client.
        clock: tells when nobody has asked for long.
        most: beyond so many, a further one takes the place of one that was asked for a longer time ago, unless callers
            wait in all that are looked at.
        idle_seconds: a view that nobody has asked for so long is closed by :meth:`sweep`.

    Attributes:
        most, idle_seconds: see above.
    """

    def __init__(self, watcher: ServiceWatcher, clock: Clock, most: int, idle_seconds: float) -> None:
        self._watcher, self._clock, self.most, self.idle_seconds = watcher, clock, most, idle_seconds
        self._overrides = watcher.watch_config(OVERRIDES_KEY)
        self._views: dict[tuple[str, str], ServiceView] = {}
        self._asked: dict[tuple[str, str], float] = {}

    async def of(self, service: str, beside: str = "") -> ServiceView:
        """The view of a service, current and ready. ``beside``: the data info id of a service that is watched with it.

        Raises:
            ModelError: the name is not good.
            Backpressure: the gateway watches too many services already, and callers wait in them.
            RegistrationError: the session server does not push it; the message says why. It is asked again each time.
            RequestTimeout: no session server has sent it in time.
            ClientClosed: the gateway stops.
        """
        key = (service, beside)
        view = self._find(key)
        if view is None:
            key = (DataInfo.parse(service).id, beside)
            view = self._find(key) or self._new(key)
        self._is_asked(key)
        await view.ready()
        return view

    def current(self, service: str) -> ServiceView | None:
        """The view of a service by its data info id, at once, if it is there and ready."""
        key = (service, "")
        view = self._find(key)
        if view is None or not view.index:
            return None
        self._is_asked(key)
        return view

    def _find(self, key: tuple[str, str]) -> ServiceView | None:
        """The view, if there is one that goes on. One that has ended is closed."""
        view = self._views.get(key)
        if view is None or not view.has_ended:
            return view
        del self._asked[key]
        self._views.pop(key).close()
        return None

    def _is_asked(self, key: tuple[str, str]) -> None:
        """Keep the order of :attr:`_asked`: the one that was asked for the longest ago is the first."""
        self._asked.pop(key, None)
        self._asked[key] = self._clock.now()

    def _close_one(self) -> bool:
        """Close a view in which nobody waits. Whether there was one among the oldest."""
        for key in list(islice(self._asked, LOOKED_AT)):
            view = self._views[key]
            self._asked[key] = self._asked.pop(key)  # those that are waited for are looked at again after all others
            if (view.index or view.has_ended) and not view.is_waited_for:
                del self._asked[key]
                self._views.pop(key).yields(self._full())
                return True
        return False

    def _full(self) -> str:
        return f"{self.most} services are watched already (gateway.most_services); try again later"

    def _new(self, key: tuple[str, str]) -> ServiceView:
        if len(self._views) >= self.most and not self._close_one():
            raise Backpressure(self._full())
        view = self._views[key] = ServiceView(self._watcher, key[0], self._overrides, key[1])
        return view

    def sweep(self) -> None:
        """Close the views that nobody has asked for, and those that have ended."""
        oldest = self._clock.now() - self.idle_seconds
        for key, asked in list(self._asked.items()):
            view = self._views[key]
            if view.has_ended or (asked < oldest and not view.is_waited_for):
                self._views.pop(key).close()
                del self._asked[key]

    @property
    def count(self) -> int:
        """Number of watched services."""
        return len(self._views)
