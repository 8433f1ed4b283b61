"""What operators get as JSON, beside the reports of :mod:`slotreeve_client.reports`. Pure.

The structs are the schemas of the OpenAPI description, too.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from slotreeve_client.reports import ServerReport, SlotReport
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.orders import Orders

Next = Annotated[str | None, Meta(description="Ask again with this as after; null: no others follow.")]
Key = Annotated[str, Meta(description="The key.")]
Version = Annotated[int, Meta(description="The number of writes and deletions; 0: it was never written.")]


class MemberList(Struct):
    """All servers: meta servers, then data and session servers."""

    servers: list[ServerReport]


class SlotList(Struct):
    """Slots with their places, in the order of their numbers."""

    epoch: Annotated[int, Meta(description="Of the slot table.")]
    term: Annotated[int, Meta(description="Of the commit.")]
    slots: list[SlotReport]
    next: Annotated[int | None, Meta(description="Ask again with this as after; null: no others follow.")]


class OrdersShown(Struct):
    """The operator's standing orders."""

    banned: Annotated[list[str], Meta(description="Servers that must hold no slots and no clients.")]
    push_stopped: Annotated[bool, Meta(description="Nobody is pushed to but those in push_to.")]
    push_to: Annotated[list[str], Meta(description="Client ids or IP addresses.")]
    clients_off: Annotated[list[str], Meta(description="Client ids or IP addresses whose registrations are hidden.")]

    ends_frozen: Annotated[bool, Meta(description="No registration ends unless its provider withdraws it.")]

    @classmethod
    def of(cls, orders: Orders) -> OrdersShown:
        """The orders, sorted."""
        clients_off = sorted(orders.clients_off)
        return cls(sorted(orders.banned), orders.push_stopped, sorted(orders.push_to), clients_off, orders.ends_frozen)


class KeyShown(Struct):
    """A key of the provided configuration."""

    key: Key
    version: Version
    bytes: Annotated[int, Meta(description="Length of the value.")]
    is_own: Annotated[bool, Meta(description="It belongs to slotreeve itself: its value is not shown here.")]


class KeyList(Struct):
    """Keys of the provided configuration, in their order."""

    keys: list[KeyShown]
    next: Next


class ValueShown(Struct):
    """A key of the provided configuration with its value."""

    key: Key
    version: Version
    value: Annotated[str | None, Meta(description="As text; null: it is not UTF-8.")]
    base64: Annotated[bytes | None, Meta(description="In Base64, where it is not UTF-8; else null.")]

    @classmethod
    def of(cls, entry: ConfigEntry) -> ValueShown:
        """What an entry with a value shows."""
        assert entry.value is not None
        try:
            return cls(entry.key, entry.version, entry.value.decode(), None)
        except UnicodeDecodeError:
            return cls(entry.key, entry.version, None, entry.value)


class MetaShown(Struct):
    """A meta server, as it says itself."""

    name: str
    address: str
    state: Annotated[str, Meta(description="leads, follows, knows no leader, or does not answer.")]
    leader: Annotated[str | None, Meta(description="The leader that it knows.")]
    term: int | None
    election: Annotated[str | None, Meta(description="The election in use.")]
    configured: Annotated[str | None, Meta(description="The election that its configuration names.")]
    problem: Annotated[str, Meta(description="Why it does not answer, or knows no leader; empty: there is none.")]


class ElectionShown(Struct):
    """The election of the meta leader."""

    leader: Annotated[str | None, Meta(description="The meta server that leads, as it says itself; null: none does.")]
    term: int | None
    meta_servers: list[MetaShown]


class OverrideShown(Struct):
    """What an operator wants of one instance, whatever its provider says."""

    service: Annotated[str, Meta(description="The service, as a whole data info id.")]
    id: Annotated[str, Meta(description="The id of the instance.")]
    weight: int | None
    enabled: bool | None
    drain: bool
    note: str


class OverrideList(Struct):
    """All overrides."""

    overrides: list[OverrideShown]


encode = msgspec.json.Encoder().encode
