"""A session server's copy of the provided configuration, and the clients that watch it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from slotreeve.errors import LimitReached, ModelError
from slotreeve_protocol.meta_messages import NOT_SHOWN, ConfigEntry, Configs
from slotreeve_protocol.provided import config_digest

from slotreeve_servers.node.outbox import Outbox, send_to_all
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.limits import FOR_ALL, ClientLimits

log = logging.getLogger("slotreeve.session")

OWN_KEYS = "slotreeve."
"""With keys, only gateways and tools may read entries of slotreeve's own, but for those that every client goes by."""


class ConfigMirror:
    """Every entry at its newest known version.

    A watcher is sent each key in the order of its versions; some versions may be skipped, the newest never is.

    Attributes:
        total: the sum of the versions of all entries. In one era it only rises.
    """

    def __init__(self, outbox: Outbox, limits: ClientLimits) -> None:
        self._outbox, self._limits = outbox, limits
        self.total = 0
        self._entries: dict[str, ConfigEntry] = {}
        self._watchers: dict[str, dict[ConnectedClient, None]] = {}
        self._is_loaded = False
        self._former: set[str] = set()

    def agrees(self, digest: int) -> bool:
        """Whether this copy was loaded and has that digest."""
        return self._is_loaded and digest == config_digest({e.key: e.version for e in self._entries.values()})

    def begin_anew(self) -> None:
        """Another era has begun, in which versions are counted anew: wait for its entries."""
        self._former.update(self._entries)
        self._entries.clear()
        self.total, self._is_loaded = 0, False

    def load(self, entries: Iterable[ConfigEntry]) -> list[ConfigEntry]:
        """Take all entries that there are; return those that are newer than this copy's, and those that there
        were in a former era only."""
        first, self._is_loaded = not self._is_loaded, True
        newer = self.apply(entries)
        if first:
            for key in sorted(self._watchers.keys() - self._entries.keys()):
                self._send(self._watchers[key], self._newest(key))
            newer += [self._newest(key) for key in sorted(self._former - self._entries.keys())]
            self._former.clear()
        return newer

    def apply(self, entries: Iterable[ConfigEntry]) -> list[ConfigEntry]:
        """Take some entries; return those that are newer than this copy's."""
        newer = [entry for entry in entries if entry.version > self._newest(entry.key).version]
        for entry in newer:
            self.total += entry.version - self._newest(entry.key).version
            self._entries[entry.key] = entry
            self._send(self._watchers.get(entry.key, ()), entry)
        return newer

    def watch(self, client: ConnectedClient, wants: Mapping[str, int]) -> None:
        """Send ``client`` these keys from now on; at once where it does not know the newest version. It is told which
        of them it may not watch."""
        for key, version in wants.items():
            try:
                self._limits.check_watch(client, key)
            except (LimitReached, ModelError) as error:
                client.peer.complain(log, "%s may not watch a key: %s", client.peer.node, error)
                self._send((client,), ConfigEntry(key, str(error).encode(), NOT_SHOWN))
                continue
            if client.permit is not None and key.startswith(OWN_KEYS) and key not in FOR_ALL:
                self._outbox.denied(client.peer, f"the key is that of a client; only gateways and tools read {key}")
                self._send((client,), ConfigEntry(key, b"only gateways and tools read it", NOT_SHOWN))
                continue
            self._watchers.setdefault(key, {})[client] = None
            client.configs.add(key)
            newest = self._newest(key)
            if newest.version > version or (self._is_loaded and version == 0):
                self._send((client,), newest)

    def unwatch(self, client: ConnectedClient, keys: Iterable[str]) -> None:
        """Send ``client`` these keys no more."""
        for key in list(keys):
            client.configs.discard(key)
            watchers = self._watchers.get(key)
            if watchers is not None:
                watchers.pop(client, None)
                if not watchers:
                    del self._watchers[key]

    def _newest(self, key: str) -> ConfigEntry:
        return self._entries.get(key) or ConfigEntry(key, None, 0)

    def _send(self, clients: Iterable[ConnectedClient], entry: ConfigEntry) -> None:
        send_to_all(self._outbox, (client.peer for client in clients), Configs([entry]))
