"""What the operator wants, apart from what servers and clients say of themselves (originals:
``DefaultForbiddenServerManager``, ``FetchStopPushService``, ``FetchClientOffAddressService``).

One provided configuration, so that it is written through the meta leader, survives restarts, and reaches every server.
"""

from __future__ import annotations

import msgspec
from slotreeve.errors import ModelError

ORDERS_KEY = "slotreeve.intent"


class Orders(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The operator's standing orders; the empty one changes nothing.

    Attributes:
        banned: names of data servers that shall hold no slot, and of session servers that shall hold no client.
        push_stopped: nothing is pushed to subscribers, but to those in ``push_to`` (client ids or IP addresses).
        clients_off: clients (client ids or IP addresses) whose providers nobody shall see.
    """

    banned: frozenset[str] = frozenset()
    push_stopped: bool = False
    push_to: frozenset[str] = frozenset()
    clients_off: frozenset[str] = frozenset()

    def encode(self) -> bytes:
        """As JSON, the same for equal intents."""
        return _encode(self)

    @classmethod
    def decode(cls, value: bytes | None) -> Orders:
        """From JSON; None is the empty one.

        Raises:
            ModelError: it is no such JSON; says where.
        """
        if value is None:
            return cls()
        try:
            return _decode(value)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise ModelError(f"provided configuration {ORDERS_KEY!r}: {error}; slotreeve admin writes it") from None


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Orders).decode
