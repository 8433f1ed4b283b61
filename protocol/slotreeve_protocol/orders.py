"""The operator's standing orders (originals: ``DefaultForbiddenServerManager``, ``FetchStopPushService``,
``FetchClientOffAddressService``).

They are one entry of the provided configuration, so they are written through the meta leader, survive restarts, and
reach every server.
"""

from __future__ import annotations

import msgspec
from slotreeve.errors import ModelError
from slotreeve.model.text import UNDECODABLE

ORDERS_KEY = "slotreeve.intent"


class Orders(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The operator's standing orders. Empty orders change nothing.

    Attributes:
        banned: names of data servers that must hold no slot, and of session servers that must hold no client.
        push_stopped: session servers push to no subscriber, except to those in ``push_to``.
        push_to: clients (client ids or IP addresses) that get pushes although they are stopped.
        clients_off: clients (client ids or IP addresses) whose registrations no subscriber must see.
        ends_frozen: no registration ends unless its provider withdraws it.
    """

    banned: frozenset[str] = frozenset()
    push_stopped: bool = False
    push_to: frozenset[str] = frozenset()
    clients_off: frozenset[str] = frozenset()
    ends_frozen: bool = False

    def __str__(self) -> str:
        """For people: ``data-9 is banned; pushes are stopped``, or ``none``."""
        but = f", but to {', '.join(sorted(self.push_to))}" if self.push_to else ""
        told = [f"{name} is banned" for name in sorted(self.banned)]
        told += [f"pushes are stopped{but}"] if self.push_stopped else []
        told += [f"what {client} publishes is off" for client in sorted(self.clients_off)]
        told += ["no registration ends unless its provider withdraws it"] if self.ends_frozen else []
        return "; ".join(told) or "none"

    def encode(self) -> bytes:
        """As JSON; equal orders have equal JSON."""
        return _encode(self)

    @classmethod
    def decode(cls, value: bytes | None) -> Orders:
        """From JSON; None stands for empty orders.

        Raises:
            ModelError: ``value`` is not the JSON of orders; the message says what is wrong.
        """
        if value is None:
            return cls()
        try:
            return _decode(value)
        except UNDECODABLE as error:
            raise ModelError(f"provided configuration {ORDERS_KEY!r}: {error}; slotreeve admin writes it") from None


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Orders).decode
