"""The watched keys of the provided configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from slotreeve.errors import ClientClosed, RegistrationError
from slotreeve_protocol.meta_messages import NOT_SHOWN, ConfigEntry

log = logging.getLogger("slotreeve.client")

KEYS_PER_MESSAGE = 1_000


class ConfigWatch:
    """One watched key. Use it from the client's event loop only.

    Attributes:
        key: the key.
        value: its newest known value; None if there is none.
        version: version of that value; 0 if the key was never written. It only rises, but begins anew where the
            cluster has lost what it counted: then the value is the one that was known before.
        refused: why the session server does not let this client watch the key, so that ``value`` may be old; None where
            it does. The next session server is asked again.
        callback_failures: number of exceptions that its callback raised.
    """

    def __init__(
        self, key: str, on_change: Callable[[ConfigWatch], None] | None, unwatch: Callable[[ConfigWatch], None]
    ) -> None:
        self.key = key
        self.value: bytes | None = None
        self.version = 0
        self.callback_failures = 0
        self.refused: RegistrationError | None = None
        self._on_change, self._unwatch = on_change, unwatch
        self._known = False
        self._answered = asyncio.Event()
        self._closed = False

    @property
    def has_ended(self) -> bool:
        """Whether the watch or the client was closed."""
        return self._closed

    async def ready(self) -> None:
        """Wait until the value is known (which may be that there is none).

        Raises:
            RegistrationError: the session server does not let this client watch the key; the message says why.
            ClientClosed: the client or the watch was closed before.
        """
        await self._answered.wait()
        if self._closed:
            raise ClientClosed(f"the watch of {self.key} has ended")
        if self.refused is not None:
            raise self.refused.with_traceback(None)  # raised before, perhaps: it would keep all frames since

    def unwatch(self) -> None:
        """End the watch. No callback follows. Idempotent."""
        if not self._closed:
            self._unwatch(self)
            self.close()

    @property
    def label(self) -> str:
        """What it is, for the log."""
        return f"the watch of {self.key}"

    def apply(self, entry: ConfigEntry) -> bool:
        """For the client's core: the newest entry of the key, or that there is none for this client. True if it is a
        change."""
        self._answered.set()
        if entry.version == NOT_SHOWN:
            reason = (entry.value or b"").decode(errors="replace")
            self.refused = RegistrationError(f"{self.key} is not shown to this client: {reason}")
            log.error("%s is refused: %s", self.label, reason)
            return False
        is_new = entry.version > self.version or not self._known
        if entry.version > self.version:
            self.value, self.version = entry.value, entry.version
        self.refused, self._known = None, True
        return is_new

    def forget_version(self) -> None:
        """For the client's core: versions are counted anew. The value stays until it is written or deleted again."""
        self.version = 0

    def call(self) -> None:
        """For the client's callbacks: call the user's function. Raises whatever that raises."""
        if self._on_change is not None and not self._closed:
            self._on_change(self)

    def close(self) -> None:
        """For the client's core: no further entry comes."""
        self._closed = True
        self._answered.set()


class ConfigWatches:
    """All watches of one client, by key. Pure."""

    def __init__(self) -> None:
        self._by_key: dict[str, list[ConfigWatch]] = {}

    def add(self, watch: ConfigWatch) -> None:
        """A new watch."""
        self._by_key.setdefault(watch.key, []).append(watch)

    def remove(self, watch: ConfigWatch) -> bool:
        """A watch has ended. True if it was the last one of its key."""
        watches = self._by_key.get(watch.key, [])
        if watch not in watches:
            return False
        watches.remove(watch)
        if not watches:
            del self._by_key[watch.key]
        return not watches

    def apply(self, entries: Iterable[ConfigEntry]) -> list[ConfigWatch]:
        """These entries have arrived. Returns the watches that have changed."""
        return [watch for entry in entries for watch in self._by_key.get(entry.key, ()) if watch.apply(entry)]

    def forget_versions(self) -> None:
        """Versions are counted anew."""
        for watches in self._by_key.values():
            for watch in watches:
                watch.forget_version()

    def versions_in_parts(self) -> Iterator[dict[str, int]]:
        """The oldest version that the watches of each key have, some keys at a time; 0, which is always answered, where
        one was refused."""
        left = iter(self._by_key.items())
        while part := list(islice(left, KEYS_PER_MESSAGE)):
            yield {
                key: min(watch.version if watch.refused is None else 0 for watch in watches) for key, watches in part
            }

    def close(self) -> None:
        """End all of them."""
        for watches in self._by_key.values():
            for watch in watches:
                watch.close()
