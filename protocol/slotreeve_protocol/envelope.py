"""An instance as bytes: four bytes that no text begins with, a version, then MessagePack. Pure.

The envelope is the only byte string of a payload. What is published otherwise is opaque, as it always was. Why it is
read the way it is: decision 0023.
"""

from __future__ import annotations

import msgspec
from slotreeve.errors import ModelError
from slotreeve.model.text import UNDECODABLE

from slotreeve_protocol.instance import Instance

MAGIC = b"\xffSRI"
"""The byte 0xFF occurs in no UTF-8 text."""
VERSION = 1
"""Rises when a field is added at the end. Other changes need another magic."""
MAX_ENVELOPE_BYTES = 16 * 1024
"""Largest envelope of any version, in bytes."""

_HEAD = MAGIC + bytes([VERSION])
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(Instance).decode


def encode_instance(instance: Instance) -> bytes:
    """The envelope of an instance. Equal instances have equal envelopes.

    Raises:
        ModelError: it is larger than :data:`MAX_ENVELOPE_BYTES`.
    """
    envelope = _HEAD + _encode(instance)
    if len(envelope) > MAX_ENVELOPE_BYTES:
        raise ModelError(
            f"instance: {instance.id} takes {len(envelope)} bytes; expected at most {MAX_ENVELOPE_BYTES}: "
            "give it fewer or shorter tags and metadata"
        )
    return envelope


def begins_like_envelope(payload: tuple[bytes, ...] | None) -> bool:
    """Whether a payload begins as an envelope does. It may still be opaque."""
    return payload is not None and len(payload) == 1 and payload[0].startswith(MAGIC)


def decode_instance(payload: tuple[bytes, ...]) -> Instance | None:
    """The instance in a payload; None if the payload is opaque. Never raises.

    Of an envelope of a newer version the fields that this version knows are read.
    """
    if not begins_like_envelope(payload):
        return None
    envelope = payload[0]
    if not len(_HEAD) < len(envelope) <= MAX_ENVELOPE_BYTES or envelope[len(MAGIC)] < 1:
        return None
    try:
        return _decode(memoryview(envelope)[len(_HEAD) :])
    except UNDECODABLE:
        return None
