"""Watching provided configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from slotreeve.errors import ClientClosed
from slotreeve_protocol.meta_messages import ConfigEntry

log = logging.getLogger("slotreeve.client")


class ConfigWatch:
    """One watched key. Use from the client's event loop only.

    Attributes:
        key: the key.
        value: its newest known value; None while there is none.
        version: of that value; it only rises. 0 where nothing was ever written.
    """

    def __init__(
        self, key: str, on_change: Callable[[ConfigWatch], None] | None, unwatch: Callable[[ConfigWatch], None]
    ) -> None:
        self.key = key
        self.value: bytes | None = None
        self.version = 0
        self._on_change, self._unwatch = on_change, unwatch
        self._told = asyncio.Event()
        self._closed = False

    async def ready(self) -> None:
        """Wait until it is known what the key's value is, or that there is none.

        Raises:
            ClientClosed: the client or the watch was closed before.
        """
        await self._told.wait()
        if self._closed:
            raise ClientClosed(f"the watch of {self.key} has ended")

    def unwatch(self) -> None:
        """End it; idempotent. No callback comes after."""
        if not self._closed:
            self._unwatch(self)
            self.close()

    def apply(self, entry: ConfigEntry) -> None:
        """The client's core: what is newest now. A callback that raises is logged."""
        news = entry.version > self.version or not self._told.is_set()
        if entry.version >= self.version:
            self.value, self.version = entry.value, entry.version
        self._told.set()
        if news and self._on_change is not None and not self._closed:
            try:
                self._on_change(self)
            except Exception:
                log.exception("the callback of the watch of %s failed", self.key)

    def close(self) -> None:
        """The client's core: nothing more comes."""
        self._closed = True
        self._told.set()
