"""A provider as subscribers see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.envelope import MAGIC, decode_instance
from slotreeve_protocol.instance import Instance


class _Record(NamedTuple):
    register_id: str
    zone: str
    data: tuple[bytes, ...]


class Provider(_Record):
    """One provider: the id of its registration, its zone, its payload, and the instance in the payload.

    Two providers are equal if id, zone and payload are. The instance is decoded when it is asked for, and once.

    Attributes:
        register_id: id of the registration, unique in the cluster.
        zone: where the provider runs.
        data: the payload.
    """

    _instance: Instance | None

    @property
    def instance(self) -> Instance | None:
        """What the provider registered; None if it published bytes of its own."""
        try:
            return self._instance
        except AttributeError:
            self._instance = decode_instance(self.data)
            return self._instance


class Providers:
    """Makes the providers of one service from its records. Pure.

    Those that may hold an instance are kept until their record changes, so that none is decoded twice.
    """

    __slots__ = ("_typed",)

    def __init__(self) -> None:
        self._typed: dict[str, Provider] = {}

    def of(self, records: Mapping[str, Publisher]) -> tuple[Provider, ...]:
        """All of them, in the order of their register ids."""
        typed: dict[str, Provider] = {}
        found: list[Provider] = []
        new = tuple.__new__  # what Provider() calls: it takes a fifth of the time of a large service
        for register_id in sorted(records):
            record = records[register_id]
            data = record.data
            if data is None:
                continue
            if len(data) == 1 and data[0].startswith(MAGIC):
                provider = typed[register_id] = self._kept(register_id, record.zone, data)
                found.append(provider)
            else:
                found.append(new(Provider, (register_id, record.zone, data)))
        self._typed = typed
        return tuple(found)

    def _kept(self, register_id: str, zone: str, data: tuple[bytes, ...]) -> Provider:
        provider = self._typed.get(register_id)
        if provider is None or provider.data != data or provider.zone != zone:
            return Provider(register_id, zone, data)
        return provider
