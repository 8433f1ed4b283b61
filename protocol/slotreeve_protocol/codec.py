"""Messages as bytes: MessagePack, each message an array that begins with the number of its type.

A frame is one head byte (wire version in the high four bits, kind in the low four), for requests and replies four
bytes of request id (little-endian), then the message's MessagePack.
"""

from __future__ import annotations

from enum import IntEnum

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


_HEADS = {kind: bytes([WIRE_VERSION << 4 | kind]) for kind in Kind}
_KINDS = {head[0]: kind for kind, head in _HEADS.items()}
_MESSAGE_HEAD = _HEADS[Kind.MESSAGE]
_WITH_ID = frozenset({Kind.REQUEST, Kind.REPLY})
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
        return _HEADS[kind] + request_id.to_bytes(4, "little") + _encode(message)
    return _HEADS[kind] + _encode(message)


def decode_frame(frame: bytes) -> tuple[Kind, int, Message]:
    """The kind, request id (0 if the kind has none) and message of a frame.

    Raises:
        MalformedFrame: the wire version or kind is unknown, the frame is cut short, or it holds no known message.
    """
    if not frame:
        raise MalformedFrame("an empty frame")
    kind = _KINDS.get(frame[0])
    if kind is None:
        raise MalformedFrame(
            f"head byte 0x{frame[0]:02x} is wire version {frame[0] >> 4}, kind {frame[0] & 15}; "
            f"this build speaks wire version {WIRE_VERSION}, kinds 0..{max(Kind)}"
        )
    request_id = 0
    start = 1
    if kind in _WITH_ID:
        if len(frame) < 5:
            raise MalformedFrame(f"a {kind.name.lower()} of {len(frame)} bytes is cut short")
        request_id = int.from_bytes(frame[1:5], "little")
        start = 5
    try:
        return kind, request_id, _decode(memoryview(frame)[start:])
    except UNDECODABLE as error:
        raise MalformedFrame(f"a {kind.name.lower()} of {len(frame)} bytes: {error}") from None
