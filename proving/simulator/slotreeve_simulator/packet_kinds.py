"""The kind of a packet's first message, read from its first bytes without decoding it.

The layouts are those of :mod:`slotreeve_protocol.codec` and :mod:`slotreeve_protocol.packets`: a frame is a head byte,
four bytes of request id where it has one, and an array that begins with the tag of the message's type.
"""

from __future__ import annotations

from typing import get_args

from slotreeve_protocol.codec import Kind
from slotreeve_protocol.messages import AnyMessage

NO_TAG = 255
"""Instead of a tag: the packet is cut short."""
_BATCH_KIND = 15
_FIRST_FRAME = 5
_TAG_AT = [6 if kind in (Kind.REQUEST, Kind.REPLY) else 2 for kind in range(16)]


def first_tag(packet: bytes) -> int:
    """The tag of the first message in a packet, 0 to 255."""
    start = _FIRST_FRAME if packet[0] & 15 == _BATCH_KIND else 0
    try:
        return packet[start + _TAG_AT[packet[start] & 15]]
    except IndexError:
        return NO_TAG


def message_tags() -> dict[str, int]:
    """Tag of every type of message, by name."""
    return {message.__name__: int(message.__struct_config__.tag) for message in get_args(AnyMessage)}
