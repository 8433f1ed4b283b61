"""Provided configuration: small values that operators write and clients watch, kept in the fenced meta state
(original: ``ProvideDataService``)."""

from __future__ import annotations

import logging

from slotreeve.errors import ModelError
from slotreeve.ports import MetaState, Versioned
from slotreeve_protocol.live_settings import SETTINGS_KEY, check_settings_change
from slotreeve_protocol.meta_messages import ConfigEntry, PutConfig
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.overrides import OVERRIDES_KEY
from slotreeve_protocol.provided import check_config_key, config_digest

log = logging.getLogger("slotreeve.configuration")

PREFIX = "config/"
MAX_VALUE_BYTES = 256 * 1024
MOST_BYTES = 15 * 1024 * 1024
"""As much as all entries may have together, with their keys and those of deleted ones: a session server that starts
gets them in one message, and the smallest frame that a transport may be set to holds 16 MiB."""
_GONE, _THERE = b"\x00", b"\x01"


class ProvidedConfig:
    """All entries as this node knows them."""

    def __init__(self, state: MetaState) -> None:
        self._state = state
        self._orders, self._orders_version = Orders(), 0
        self._digest_and_total: tuple[int, int] | None = None
        state.watch(self._changed)

    def _changed(self, name: str, _stored: Versioned) -> None:
        if name.startswith(PREFIX):
            self._digest_and_total = None

    @property
    def orders(self) -> Orders:
        """The operator's orders as this node knows them."""
        stored = self._state.read(PREFIX + ORDERS_KEY)
        version = stored.version if stored is not None else 0
        if version != self._orders_version:
            self._orders_version = version
            try:
                self._orders = Orders.decode(_entry(PREFIX + ORDERS_KEY, stored).value if stored is not None else None)
            except ModelError as error:
                log.error("%s; the orders before it stay in force", error)
        return self._orders

    @property
    def live_settings(self) -> ConfigEntry:
        """The operator's live settings as this node knows them; their version is 0 where there never were any."""
        stored = self._state.read(PREFIX + SETTINGS_KEY)
        return _entry(PREFIX + SETTINGS_KEY, stored) if stored is not None else ConfigEntry(SETTINGS_KEY, None, 0)

    def entries(self, prefix: str = "") -> list[ConfigEntry]:
        """Every entry whose key starts with ``prefix``, with those that were deleted, sorted by key."""
        found = []
        for name in self._state.keys():  # noqa: SIM118 - not a mapping
            stored = self._state.read(name) if name.startswith(PREFIX + prefix) else None
            if stored is not None:
                found.append(_entry(name, stored))
        return found

    @property
    def digest(self) -> int:
        """Digest of all keys with their versions: equal where nothing was missed."""
        return self._counted()[0]

    @property
    def total(self) -> int:
        """The sum of the versions of all entries. It only rises: whoever has a greater one knows a newer state."""
        return self._counted()[1]

    def _counted(self) -> tuple[int, int]:
        if self._digest_and_total is None:
            versions = {entry.key: entry.version for entry in self.entries()}
            self._digest_and_total = config_digest(versions), sum(versions.values())
        return self._digest_and_total

    async def put(self, message: PutConfig, term: int) -> ConfigEntry:
        """Write one entry; returns it once it is durable.

        Raises:
            ModelError: the key is blank or too long, the value or all of them together too large, or a live setting
                out of its bounds.
            NotLeader, StaleTerm, VersionConflict: as the meta state's write.
        """
        check_config_key(message.key)
        if message.value is not None and len(message.value) > MAX_VALUE_BYTES:
            raise ModelError(f"{message.key}: {len(message.value)} bytes are too many; {MAX_VALUE_BYTES} is the limit")
        if message.key == SETTINGS_KEY:
            check_settings_change(self.live_settings.value, message.value)
        elif message.key not in (ORDERS_KEY, OVERRIDES_KEY):  # operators act whatever else there is
            self._check_room(message.key, message.value)
        stored = _GONE if message.value is None else _THERE + message.value
        version = await self._state.write(PREFIX + message.key, stored, message.expected_version, term)
        return ConfigEntry(message.key, message.value, version)

    def _check_room(self, key: str, value: bytes | None) -> None:
        sizes = {entry.key: len(entry.key) + len(entry.value or b"") for entry in self.entries()}
        had, needed = sizes.get(key, 0), len(key) + len(value or b"")
        total = sum(sizes.values()) - had + needed
        if needed > had and total > MOST_BYTES:
            raise ModelError(
                f"{key}: the provided configuration would have {total} bytes; all values and keys together, those of "
                f"deleted ones included, may have {MOST_BYTES}: delete values that nobody needs"
            )

    @staticmethod
    def entry_of(name: str, stored: Versioned) -> ConfigEntry | None:
        """The entry that a committed key of the meta state holds; None where it holds something else."""
        return _entry(name, stored) if name.startswith(PREFIX) else None


def _entry(name: str, stored: Versioned) -> ConfigEntry:
    value = stored.value[1:] if stored.value[:1] == _THERE else None
    return ConfigEntry(name.removeprefix(PREFIX), value, stored.version)
