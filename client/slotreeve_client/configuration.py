"""A watched key of the provided configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from slotreeve.errors import ClientClosed
from slotreeve_protocol.meta_messages import ConfigEntry

log = logging.getLogger("slotreeve.client")


class ConfigWatch:
    """One watched key. Use it from the client's event loop only.

    Attributes:
        key: the key.
        value: its newest known value; None if there is none.
        version: version of that value. It only rises; it is 0 if the key was never written.
    """

    def __init__(
        self, key: str, on_change: Callable[[ConfigWatch], None] | None, unwatch: Callable[[ConfigWatch], None]
    ) -> None:
        self.key = key
        self.value: bytes | None = None
        self.version = 0
        self._on_change, self._unwatch = on_change, unwatch
        self._known = asyncio.Event()
        self._closed = False

    async def ready(self) -> None:
        """Wait until the value is known (which may be that there is none).

        Raises:
            ClientClosed: the client or the watch was closed before.
        """
        await self._known.wait()
        if self._closed:
            raise ClientClosed(f"the watch of {self.key} has ended")

    def unwatch(self) -> None:
        """End the watch. No callback follows. Idempotent."""
        if not self._closed:
            self._unwatch(self)
            self.close()

    def apply(self, entry: ConfigEntry) -> None:
        """For the client's core: the newest entry of the key. An exception in the callback is logged."""
        is_new = entry.version > self.version or not self._known.is_set()
        if entry.version >= self.version:
            self.value, self.version = entry.value, entry.version
        self._known.set()
        if is_new and self._on_change is not None and not self._closed:
            try:
                self._on_change(self)
            except Exception:
                log.exception("the callback of the watch of %s failed", self.key)

    def close(self) -> None:
        """For the client's core: no further entry comes."""
        self._closed = True
        self._known.set()
