"""An instance: where a provider is and how it is, in typed fields. Pure.

It is published as the only byte string of a payload (:mod:`slotreeve_protocol.envelope`). Servers know payloads only.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TypedDict, Unpack

import msgspec
from slotreeve.errors import ModelError
from slotreeve.model.publisher import MAX_ZONE_LENGTH

from slotreeve_protocol.addresses import MAX_PORT, AddressKind, endpoint, kind_of, normal

MAX_WEIGHT = 65_535
DEFAULT_WEIGHT = 100
"""Weight of an instance that names none: there is room below it for less traffic, and above it for more."""
MAX_ID_LENGTH = 290
"""Longest id, in characters; ``address:port`` always fits."""
MAX_TAGS = 64
MAX_TAG_LENGTH = 512
MAX_METADATA = 64
"""Most entries of the metadata."""
MAX_METADATA_KEY_LENGTH = 128
MAX_METADATA_VALUE_LENGTH = 1_024
MAX_NOTE_LENGTH = 1_024

_SCHEME = re.compile(r"(?:[a-z][a-z0-9+.-]{0,31})?").fullmatch
_NOT_IN_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]").search
_NOT_IN_TEXT = re.compile(r"[\ud800-\udfff]").search


class Health(StrEnum):
    """How a provider is."""

    PASSING = "passing"
    """It works."""
    WARNING = "warning"
    """It works, and something is not as it should be."""
    CRITICAL = "critical"
    """It does not work."""

    @property
    def rank(self) -> int:
        """0 for the best; the worse, the greater."""
        return _RANKS[self]


_RANKS = {Health.PASSING: 0, Health.WARNING: 1, Health.CRITICAL: 2}


class InstanceChanges(TypedDict, total=False):
    """The fields of an instance that can change while it is registered, with their types."""

    address: str
    port: int
    scheme: str
    weight: int
    tags: tuple[str, ...]
    metadata: dict[str, str]
    health: Health
    health_note: str
    enabled: bool


class Instance(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A provider: where it is and how it is.

    The fields are checked when it is made, and the address is brought into its usual form. The order of the fields is
    that of the encoding: a new field comes last and has a default.

    Attributes:
        address: IPv4 address, IPv6 address (without brackets), or DNS name of at most 253 characters.
        port: 0 to 65535; 0 means that it has none.
        scheme: how to talk to it, e.g. ``http``: a small letter, then small letters, digits, ``+``, ``.`` and ``-``; at
            most 32 characters; empty if not said.
        weight: its share of the traffic in comparison with others, 0 to 65535. 0 means none, unless all have 0.
        zone: the failure domain that it is in, at most 255 characters; empty if not said.
        tags: at most 64 different texts of 1 to 512 characters, in the provider's order.
        metadata: at most 64 entries; keys have 1 to 128 characters, values at most 1,024.
        health: how it is, as its provider says.
        health_note: why, for people; at most 1,024 characters.
        enabled: False means that it must not be called, however healthy it is.
        id: its identity within the service, at most 290 characters. It stays the same when the provider starts again.
            Default: ``address:port``.

    Raises:
        ModelError: a field is wrong; the message names the field, its value and what would be right.
    """

    address: str
    port: int = 0
    scheme: str = ""
    weight: int = DEFAULT_WEIGHT
    zone: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    health: Health = Health.PASSING
    health_note: str = ""
    enabled: bool = True
    id: str = ""

    def __post_init__(self) -> None:
        """Check the fields and fill in the id."""
        if type(self.address) is not str:
            raise _wrong("address", self.address, "a text")
        address = normal(self.address)
        if address != self.address:
            msgspec.structs.force_setattr(self, "address", address)
        _check_number("port", self.port, MAX_PORT)
        _check_number("weight", self.weight, MAX_WEIGHT)
        if type(self.scheme) is not str or not _SCHEME(self.scheme):
            raise _wrong(
                "scheme", self.scheme, "e.g. http: at most 32 small letters, digits, +, . and -, first a letter"
            )
        _check_line("zone", self.zone, 0, MAX_ZONE_LENGTH)
        if self.tags != ():
            self._check_tags()
        if self.metadata != {}:
            self._check_metadata()
        if not isinstance(self.health, Health):
            raise _wrong("health", self.health, ", ".join(Health))
        _check_text("health_note", self.health_note, MAX_NOTE_LENGTH)
        if type(self.enabled) is not bool:
            raise _wrong("enabled", self.enabled, "True or False")
        if self.id == "":
            msgspec.structs.force_setattr(self, "id", endpoint(address, self.port))
        else:
            _check_line("id", self.id, 1, MAX_ID_LENGTH)

    def _check_tags(self) -> None:
        tags = self.tags
        if not isinstance(tags, tuple) or len(tags) > MAX_TAGS:
            raise _wrong("tags", tags, f"a tuple of at most {MAX_TAGS} texts")
        for tag in tags:
            _check_line("a tag", tag, 1, MAX_TAG_LENGTH)
        if len(set(tags)) < len(tags):
            raise _wrong("tags", tags, "each tag once")

    def _check_metadata(self) -> None:
        metadata = self.metadata
        if not isinstance(metadata, dict) or len(metadata) > MAX_METADATA:
            raise _wrong("metadata", metadata, f"a dict of at most {MAX_METADATA} entries")
        for key, value in metadata.items():
            _check_line("a key of metadata", key, 1, MAX_METADATA_KEY_LENGTH)
            _check_text(f"metadata[{key!r}]", value, MAX_METADATA_VALUE_LENGTH)
        # The caller may go on changing the dictionary, and the instance must not change with it.
        msgspec.structs.force_setattr(self, "metadata", dict(metadata))

    def changed(self, **changes: Unpack[InstanceChanges]) -> Instance:
        """A copy with other values in these fields.

        Raises:
            ModelError: a value is wrong, or the field is the id or the zone, which stay.
        """
        for field in ("id", "zone"):
            if field in changes:
                raise ModelError(f"instance: {field} of {self.id} cannot change; expected another instance of its own")
        return msgspec.structs.replace(self, **changes)

    @property
    def endpoint(self) -> str:
        """``address:port``, with brackets around an IPv6 address; the address alone where the port is 0."""
        return endpoint(self.address, self.port)

    @property
    def address_kind(self) -> AddressKind:
        """What the address is."""
        return kind_of(self.address)


def _check_number(field: str, value: object, most: int) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise _wrong(field, value, f"a whole number from 0 to {most}")


def _check_line(field: str, value: object, least: int, most: int) -> None:
    if type(value) is not str or not least <= len(value) <= most or _NOT_IN_A_LINE(value):
        raise _wrong(field, value, f"{least} to {most} characters without control characters")


def _check_text(field: str, value: object, most: int) -> None:
    if type(value) is not str or len(value) > most or _NOT_IN_TEXT(value):
        raise _wrong(field, value, f"a text of at most {most} characters")


def _wrong(field: str, value: object, right: str) -> ModelError:
    shown = repr(value)
    if len(shown) > 80:
        size = f" ({len(value)} in it)" if isinstance(value, str | tuple | dict) else ""
        shown = f"{shown[:60]}...{size}"
    return ModelError(f"instance: {field} is {shown}; expected {right}")
