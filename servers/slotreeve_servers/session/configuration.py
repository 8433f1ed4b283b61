"""A session server's copy of the provided configuration, and the clients that watch it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from slotreeve.errors import TransportError
from slotreeve_protocol.meta_messages import ConfigEntry, Configs
from slotreeve_protocol.provided import config_digest

from slotreeve_servers.session.clients import ConnectedClient

log = logging.getLogger("slotreeve.configuration")


class ConfigMirror:
    """Every entry at its newest known version; ``changed`` hears of each newer one.

    A watcher is told each key in order of versions; some may be skipped, the newest never is.
    """

    def __init__(self, changed: Callable[[ConfigEntry], None]) -> None:
        self._changed = changed
        self._entries: dict[str, ConfigEntry] = {}
        self._watchers: dict[str, set[ConnectedClient]] = {}
        self._is_loaded = False

    def agrees(self, digest: int) -> bool:
        """Whether this copy is what has that digest, and was ever loaded."""
        return self._is_loaded and digest == config_digest({e.key: e.version for e in self._entries.values()})

    def load(self, entries: Iterable[ConfigEntry]) -> None:
        """All there is, from the meta leader."""
        first, self._is_loaded = not self._is_loaded, True
        known = set(self._entries)
        self.apply(entries)
        if first:
            for key in self._watchers.keys() - self._entries.keys() - known:
                self._tell(self._watchers[key], self._newest(key))

    def apply(self, entries: Iterable[ConfigEntry]) -> None:
        """Some that may be newer."""
        for entry in entries:
            if entry.version > self._newest(entry.key).version:
                self._entries[entry.key] = entry
                self._changed(entry)
                self._tell(self._watchers.get(entry.key, ()), entry)

    def watch(self, client: ConnectedClient, wants: Mapping[str, int]) -> None:
        """Tell ``client`` of these keys from now on; at once where it does not know the newest."""
        for key, version in wants.items():
            self._watchers.setdefault(key, set()).add(client)
            client.configs.add(key)
            newest = self._newest(key)
            if newest.version > version or (self._is_loaded and version == 0):
                self._tell((client,), newest)

    def unwatch(self, client: ConnectedClient, keys: Iterable[str]) -> None:
        """Tell ``client`` no more of these keys."""
        for key in list(keys):
            client.configs.discard(key)
            watchers = self._watchers.get(key)
            if watchers is not None:
                watchers.discard(client)
                if not watchers:
                    del self._watchers[key]

    def _newest(self, key: str) -> ConfigEntry:
        return self._entries.get(key) or ConfigEntry(key, None, 0)

    def _tell(self, clients: Iterable[ConnectedClient], entry: ConfigEntry) -> None:
        for client in clients:
            try:
                client.connection.send(Configs([entry]))
            except TransportError as error:
                log.info("%s not told of %s: %s", client.connection.peer.node, entry.key, error)
                client.connection.close("it does not read its configuration; it may come back and ask anew")
