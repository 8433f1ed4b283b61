"""Messages as bytes: MessagePack, each message an array that begins with the number of its type.

A frame is one head byte (wire version in the high four bits, kind in the low four), for requests and replies four
bytes of request id (little-endian), then the message's MessagePack.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

import msgspec
from slotreeve.errors import MalformedFrame, ModelError
from slotreeve.model.text import UNDECODABLE
from slotreeve.ports import Message

from slotreeve_protocol.messages import AnyMessage

WIRE_VERSION = 1


class Kind(IntEnum):
    """The kind of a frame."""

    MESSAGE = 0
    REQUEST = 1
    REPLY = 2
    HELLO = 3
    WELCOME = 4
    REFUSED = 5
    BYE = 6


_WITH_ID = frozenset({Kind.REQUEST, Kind.REPLY})
_LONG_HEAD = Struct("<BI")
_HEADS = {kind: WIRE_VERSION << 4 | kind for kind in Kind}
_MESSAGE_HEAD = bytes([_HEADS[Kind.MESSAGE]])
# The kind of a frame by its head byte, and how long its head is.
_KINDS = {head: (kind, _LONG_HEAD.size if kind in _WITH_ID else 1) for kind, head in _HEADS.items()}
_encoder = msgspec.msgpack.Encoder()
_decode = msgspec.msgpack.Decoder(AnyMessage).decode


def _encode(message: Message) -> bytes:
    try:
        return _encoder.encode(message)
    except (UnicodeEncodeError, OverflowError, TypeError) as error:
        raise ModelError(f"a {type(message).__name__} cannot be encoded: {error}") from None


def encode_message(message: Message) -> bytes:
    """The frame of a one-way message. It may be sent to any number of peers.

    Raises:
        ModelError: the message has a text with a lone surrogate, or a value of a wrong type.
    """
    return _MESSAGE_HEAD + _encode(message)


def encode_frame(kind: Kind, message: Message, request_id: int = 0) -> bytes:
    """The frame of a message of any kind. Requests and replies carry ``request_id`` (0 .. 2^32-1). Raises as
    :func:`encode_message`."""
    if kind in _WITH_ID:
        return _LONG_HEAD.pack(_HEADS[kind], request_id) + _encode(message)
    return bytes((_HEADS[kind],)) + _encode(message)


def decode_frame(frame: bytes) -> tuple[Kind, int, Message]:
    """The kind, request id (0 if the kind has none) and message of a frame.

    Raises:
        MalformedFrame: the wire version or kind is unknown, the frame is cut short, or it holds no known message.
    """
    if not frame:
        raise MalformedFrame("an empty frame")
    known = _KINDS.get(frame[0])
    if known is None:
        raise MalformedFrame(
            f"head byte 0x{frame[0]:02x} is wire version {frame[0] >> 4}, kind {frame[0] & 15}; "
            f"this build speaks wire version {WIRE_VERSION}, kinds 0..{max(Kind)}"
        )
    kind, start = known
    request_id = 0
    if start > 1:
        if len(frame) < start:
            raise MalformedFrame(f"a {kind.name.lower()} of {len(frame)} bytes is cut short")
        _, request_id = _LONG_HEAD.unpack_from(frame)
    try:
        return kind, request_id, _decode(frame[start:])
    except UNDECODABLE as error:
        raise MalformedFrame(f"a {kind.name.lower()} of {len(frame)} bytes: {error}") from None
