"""The operator's overrides of single instances.

They are one entry of the provided configuration, as the standing orders are: written through the meta leader, kept
through restarts of every process, and sent to the clients that watch the key. They are kept apart from what a provider
says, under the id of its instance, so a provider that registers again meets the same override.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from slotreeve.errors import ModelError
from slotreeve.model.text import UNDECODABLE

from slotreeve_protocol.instance import MAX_ID_LENGTH, MAX_WEIGHT, Instance

OVERRIDES_KEY = "slotreeve.overrides"
MAX_OVERRIDES = 500
"""Most overrides in a cluster: each client that looks at instances is sent all of them."""
MAX_OVERRIDES_BYTES = 128 * 1024
"""Largest JSON of all overrides, in bytes."""
MAX_OVERRIDE_NOTE_LENGTH = 200

_SURROGATES = re.compile(r"[\ud800-\udfff]").search


class Override(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operator wants of one instance, whatever its provider says.

    Attributes:
        weight: its weight, 0 to 65535; None: as the provider says.
        enabled: whether it may be called; None: as the provider says.
        drain: it gets no new traffic: its weight is 0.
        note: why, for people; at most 200 characters.

    Raises:
        ModelError: a field is out of its bounds.
    """

    weight: int | None = None
    enabled: bool | None = None
    drain: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        """Check the bounds."""
        if self.weight is not None and not 0 <= self.weight <= MAX_WEIGHT:
            raise ModelError(f"override: weight is {self.weight}; expected 0 to {MAX_WEIGHT}")
        _check_text("note", self.note, 0, MAX_OVERRIDE_NOTE_LENGTH)

    @property
    def is_empty(self) -> bool:
        """Whether it changes no instance."""
        return self.weight is None and self.enabled is None and not self.drain

    def applied_to(self, said: Instance) -> Instance:
        """The instance as subscribers are to see it, where the provider says ``said``."""
        weight = 0 if self.drain else said.weight if self.weight is None else self.weight
        enabled = said.enabled if self.enabled is None else self.enabled
        if (weight, enabled) == (said.weight, said.enabled):
            return said
        return said.changed(weight=weight, enabled=enabled)


class Overrides(msgspec.Struct, frozen=True):
    """All overrides. Do not change the dictionaries.

    Attributes:
        services: the overrides by data info id and id of the instance.
    """

    services: dict[str, dict[str, Override]] = {}

    @property
    def count(self) -> int:
        """Number of overrides."""
        return sum(map(len, self.services.values()))

    def of(self, data_info_id: str) -> Mapping[str, Override]:
        """The overrides of one service by the id of the instance."""
        return self.services.get(data_info_id, {})

    def changed(self, data_info_id: str, instance_id: str, override: Override | None) -> Overrides:
        """A copy in which this instance has this override; None: it has none any more.

        Raises:
            ModelError: the id is too long or empty, the override changes nothing, or there would be too many.
        """
        _check_text("id", instance_id, 1, MAX_ID_LENGTH)
        of_service = dict(self.of(data_info_id))
        if override is None:
            of_service.pop(instance_id, None)
        elif override.is_empty:
            raise ModelError(
                f"override of {instance_id}: it changes nothing; expected a weight, enabled or drain, or clear it"
            )
        else:
            of_service[instance_id] = override
        services = {**self.services, data_info_id: of_service}
        if not of_service:
            del services[data_info_id]
        made = Overrides(services)
        if made.count > max(MAX_OVERRIDES, self.count):
            raise ModelError(f"{made.count} overrides are too many; {MAX_OVERRIDES} is the limit: clear some")
        return made

    def encode(self) -> bytes:
        """As JSON; equal overrides have equal JSON.

        Raises:
            ModelError: it is larger than :data:`MAX_OVERRIDES_BYTES`.
        """
        value = _encode(self)
        if len(value) > MAX_OVERRIDES_BYTES:
            raise ModelError(f"overrides take {len(value)} bytes; {MAX_OVERRIDES_BYTES} is the limit: clear some")
        return value

    @classmethod
    def decode(cls, value: bytes | None) -> Overrides:
        """From JSON; None stands for no overrides.

        Raises:
            ModelError: ``value`` is not the JSON of overrides; the message says what is wrong.
        """
        if value is None:
            return cls()
        try:
            return _decode(value)
        except UNDECODABLE as error:
            raise ModelError(
                f"provided configuration {OVERRIDES_KEY!r}: {error}; slotreeve override writes it"
            ) from None


def _check_text(field: str, value: str, least: int, most: int) -> None:
    if not least <= len(value) <= most or _SURROGATES(value):
        raise ModelError(
            f"override: {field} is {value[:60]!r} ({len(value)} characters); expected {least} to {most} in UTF-8"
        )


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Overrides).decode
