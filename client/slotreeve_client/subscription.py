"""One subscriber of a service, and the copy of the service that subscribers share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from slotreeve.errors import ClientClosed, SlotreeveError
from slotreeve_protocol.client_messages import Push, Scope
from slotreeve_protocol.datum_copy import DatumCopy, Fit
from slotreeve_protocol.envelope import begins_like_envelope

from slotreeve_client.overriding import OverridesInForce
from slotreeve_client.provider import Provider, Providers
from slotreeve_client.selection import Filter, Selection

log = logging.getLogger("slotreeve.client")


class Watched:
    """The client's copy of one service under one scope, and the subscriptions that share it.

    Attributes:
        data_info_id: the service.
        scope: whose registrations it holds.
        copy: the records.
        subscriptions: the subscribers.
        changes: number of changes of the records, and of the operator's overrides of them, so far.
        has_instances: whether a record began like an instance. Only then do overrides matter.
    """

    __slots__ = (
        "_has_arrived",
        "_in_force",
        "_overrides",
        "_providers",
        "changes",
        "copy",
        "data_info_id",
        "has_instances",
        "scope",
        "subscriptions",
    )

    def __init__(self, data_info_id: str, scope: Scope, in_force: OverridesInForce) -> None:
        self.data_info_id, self.scope = data_info_id, scope
        self.copy = DatumCopy()
        self.subscriptions: list[Subscription] = []
        self.changes = 0
        self.has_instances = False
        self._in_force, self._overrides = in_force, in_force.of(data_info_id)
        self._providers = Providers()
        self._has_arrived = False

    @property
    def providers(self) -> tuple[Provider, ...]:
        """All providers, in the order of their register ids; without the instances until their overrides are known."""
        return self._providers.of(self.copy.records, self._overrides)

    @property
    def is_ready(self) -> bool:
        """Whether the first push has arrived, and the overrides where there are instances. It stays so while a whole
        state is asked for again."""
        return self._has_arrived and not (self.has_instances and self._overrides is None)

    def follow_overrides(self) -> bool:
        """The overrides have changed, or are known for the first time. True if subscribers must be told."""
        before, self._overrides = self._overrides, self._in_force.of(self.data_info_id)
        if not self.has_instances or self._overrides == before:
            return False
        self.changes += 1
        return True

    def fits(self, push: Push) -> bool:
        """Whether a push leads from the copy to a newer state."""
        return self.copy.fit(push) is Fit.NEXT

    def apply(self, push: Push) -> bool:
        """Apply a push, or keep it until all its parts have arrived. True if it led to a newer version. Where it does
        not fit the copy, the version of the copy is 0 afterwards, and the whole service is needed."""
        if not self.has_instances:
            self.has_instances = any(begins_like_envelope(record.data) for record in push.changed)
        fit = self.copy.fit(push)
        if fit is Fit.NEXT:
            if self.copy.apply(push) is not None:
                self.changes += 1
                self._has_arrived = True
                return True
            log.warning("the digest of a push of %s is wrong; asking for the whole service", self.data_info_id)
        elif fit is Fit.PART:
            self.copy.gather(push)
        elif fit is Fit.GAP:
            log.warning("a push of %s starts at a version that this client does not have", self.data_info_id)
            self.copy.forget_version()
        return False


class Subscription:
    """One subscriber of a service. Use it from the client's event loop only.

    Attributes:
        updates: number of times that its callback was called; a call may stand for several changes.
        callback_failures: number of exceptions that its callback raised.
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_error",
        "_on_change",
        "_unsubscribe",
        "_waiters",
        "_watched",
        "callback_failures",
        "updates",
    )

    def __init__(
        self,
        watched: Watched,
        on_change: Callable[[Subscription], None] | None,
        unsubscribe: Callable[[Subscription], None],
    ) -> None:
        self._watched, self._on_change, self._unsubscribe = watched, on_change, unsubscribe
        self._waiters: dict[asyncio.Future[None], None] | None = None
        self._closed = False
        self._error: SlotreeveError | None = None
        self.updates = 0
        self.callback_failures = 0

    @property
    def data_info_id(self) -> str:
        """The service."""
        return self._watched.data_info_id

    @property
    def scope(self) -> Scope:
        """Whose registrations it sees."""
        return self._watched.scope

    @property
    def version(self) -> int:
        """Version of the copy: (slot leader epoch << 32) + counter; 0 before the first push. It rises, but begins anew
        where the cluster has lost what it counted."""
        return self._watched.copy.version

    @property
    def instances(self) -> tuple[Provider, ...]:
        """All providers in the order of their register ids: none before the first push, all of them after it."""
        return self._watched.providers

    @property
    def changes(self) -> int:
        """Rises with each change of :attr:`instances`: while it is the same, they are the same. Any thread may read
        it."""
        return self._watched.changes

    def select(self, chosen: Filter | None = None) -> Selection:
        """Those of :attr:`instances` that a filter admits, by default the enabled ones that are not critical."""
        return Selection(self, chosen if chosen is not None else Filter())

    @property
    def count(self) -> int:
        """Number of providers. It costs nothing, where :attr:`instances` sorts them."""
        return len(self._watched.copy.records)

    @property
    def is_ready(self) -> bool:
        """True once the first push has arrived (which may be that there are no providers), and with it, where there
        are instances, what the operator overrides of them."""
        return self._watched.is_ready

    @property
    def has_ended(self) -> bool:
        """Whether the subscription or the client was closed, or the service is not pushed to this client."""
        return self._closed

    @property
    def error(self) -> SlotreeveError | None:
        """Why the service is not pushed to this client (any more); None where it is, or somebody has closed it."""
        return self._error

    async def ready(self) -> None:
        """Wait for the first push.

        Raises:
            ClientClosed: the client or the subscription was closed before.
            RegistrationError: the service is not pushed to this client; the message says why.
        """
        if self._closed:
            if self._error is not None:
                raise self._error.with_traceback(None)  # raised before, perhaps: it would keep all frames since
            raise ClientClosed(f"the subscription to {self.data_info_id} has ended")
        if not self.is_ready:
            waiter = asyncio.get_running_loop().create_future()
            if self._waiters is None:
                self._waiters = {}
            self._waiters[waiter] = None
            try:
                await waiter
            finally:
                if self._waiters is not None:
                    self._waiters.pop(waiter, None)

    def unsubscribe(self) -> None:
        """End the subscription. No callback follows. Idempotent."""
        if not self._closed:
            self._unsubscribe(self)
            self.close()

    @property
    def label(self) -> str:
        """What it is, for the log."""
        return f"the subscription to {self.data_info_id}"

    def changed(self) -> bool:
        """For the client's core: the copy has changed. Ends the waits in :meth:`ready`. True unless the subscription
        has ended."""
        if self._waiters:
            waiters, self._waiters = self._waiters, None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        return not self._closed

    def call(self) -> None:
        """For the client's callbacks: call the user's function. Raises whatever that raises."""
        if not self._closed:
            self.updates += 1
            if self._on_change is not None:
                self._on_change(self)

    def close(self, error: SlotreeveError | None = None) -> None:
        """For the client's core: no further change comes, because of this error or because somebody has closed it."""
        self._closed, self._error = True, error
        for waiter in self._waiters or ():
            if not waiter.done():
                waiter.set_exception(error or ClientClosed(f"the subscription to {self.data_info_id} has ended"))
        self._waiters = None
