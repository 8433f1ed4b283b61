"""What a subscriber sees of one service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from slotreeve.errors import ClientClosed
from slotreeve.model.datum import NO_VERSION, content_digest, with_change
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Push, Scope

log = logging.getLogger("slotreeve.client")


class Instance(NamedTuple):
    """One provider: its registration's id, its zone, what it published."""

    register_id: str
    zone: str
    data: tuple[bytes, ...]


class Watched:
    """The client's copy of one service under one scope, shared by its subscriptions.

    Invariant: ``version`` only rises while the copy lives (I11); at ``version`` > 0 it is complete (I7).
    """

    def __init__(self, data_info_id: str, scope: Scope) -> None:
        self.data_info_id, self.scope = data_info_id, scope
        self.version = NO_VERSION
        self.digest = 0
        self.records: dict[str, Publisher] = {}
        self.subscriptions: list[Subscription] = []

    def apply(self, push: Push) -> bool:
        """Take a push; True if it was newer. ``version`` is 0 afterwards if it could not be applied."""
        if push.version <= self.version:
            return False
        if push.from_version == NO_VERSION:
            self.records = {record.register_id: record for record in push.changed}
            self.digest = content_digest(push.changed)
        elif self.version == NO_VERSION or push.from_version > self.version:
            log.warning("a push of %s starts at a version this client does not have", self.data_info_id)
            self.version = NO_VERSION
            return False
        else:
            self._step(push)
        if self.digest != push.digest:
            log.warning("a push of %s does not add up; everything is asked for", self.data_info_id)
            self.version = NO_VERSION
            return False
        self.version = push.version
        return True

    def _step(self, push: Push) -> None:
        for record in push.changed:
            self.digest = with_change(self.digest, self.records.get(record.register_id), record)
            self.records[record.register_id] = record
        for register_id in push.removed:
            if (gone := self.records.pop(register_id, None)) is not None:
                self.digest = with_change(self.digest, gone, None)


class Subscription:
    """One subscriber. Use from the client's event loop only."""

    def __init__(
        self,
        watched: Watched,
        on_change: Callable[[Subscription], None] | None,
        unsubscribe: Callable[[Subscription], None],
    ) -> None:
        self._watched, self._on_change, self._unsubscribe = watched, on_change, unsubscribe
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False
        self.updates = 0
        self.callback_failures = 0

    @property
    def data_info_id(self) -> str:
        """The service."""
        return self._watched.data_info_id

    @property
    def scope(self) -> Scope:
        """Which publishers it sees."""
        return self._watched.scope

    @property
    def version(self) -> int:
        """Version of what is seen: (slot leader epoch << 32) + counter; 0 before the first push."""
        return self._watched.version

    @property
    def instances(self) -> tuple[Instance, ...]:
        """All providers, by register id. Never partial: empty before the first push, complete after."""
        records = self._watched.records
        return tuple(
            [
                Instance(key, records[key].zone, data)
                for key in sorted(records)
                if (data := records[key].data) is not None
            ]
        )

    @property
    def is_ready(self) -> bool:
        """True once the first push has come (which may say that there are no providers)."""
        return self._watched.version != NO_VERSION

    async def ready(self) -> None:
        """Wait for the first push.

        Raises:
            ClientClosed: the client or the subscription was closed before.
        """
        if self._closed:
            raise ClientClosed(f"the subscription to {self.data_info_id} has ended")
        if not self.is_ready:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def unsubscribe(self) -> None:
        """End it; idempotent. No callback comes after."""
        if not self._closed:
            self._unsubscribe(self)
            self.close()

    def update(self) -> None:
        """The client's core: there is something new. A callback that raises is logged and counted."""
        self.updates += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters = []
        if self._on_change is not None and not self._closed:
            try:
                self._on_change(self)
            except Exception:
                self.callback_failures += 1
                log.exception("the callback of the subscription to %s failed", self.data_info_id)

    def close(self) -> None:
        """The client's core: no more updates come."""
        self._closed = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(ClientClosed(f"the subscription to {self.data_info_id} has ended"))
        self._waiters = []
