"""Bytes on disk: sealed small files and the frames of the log, both with checksums. Pure.

A *sealed* file is written as a whole (``Storage.replace``). A *frame* is what one append adds to the log; the append
may have been cut short by a crash, or have holes where a page was not written, and only the last one can have been.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from slotreeve.errors import StorageError

_MAGIC = b"SRF1"
_HEAD = struct.Struct("<4sII")  # magic, payload length, payload checksum
_HEAD_SUM = struct.Struct("<I")  # checksum of the head, so that a damaged length is not taken for a short file
_PREFIX = _HEAD.size + _HEAD_SUM.size
SECTOR = 512
"""Bytes that a disk writes as a whole."""
_SHORTEST_HOLE = 4
"""Fewer zeros at the end of a file prove nothing."""


def frame(payload: bytes) -> bytes:
    """``payload`` with its length and checksums in front."""
    head = _HEAD.pack(_MAGIC, len(payload), zlib.crc32(payload))
    return head + _HEAD_SUM.pack(zlib.crc32(head)) + payload


def unseal(content: bytes, name: str, remedy: str) -> bytes:
    """The payload of a file that is one frame.

    Raises:
        StorageError: it is not exactly one whole frame; names the file and the remedy.
    """
    payload = _whole_frame(content, 0)
    if payload is None or _PREFIX + len(payload) != len(content):
        raise StorageError(f"{name}: is damaged (its checksum does not match); {remedy}")
    return payload


def read_frames(content: bytes, name: str, remedy: str) -> tuple[list[bytes], int]:
    """The payloads of a log, and how many bytes at its end are the beginning of an append that a crash cut short.

    Raises:
        StorageError: a frame is damaged that was once whole; names the file, the place and the remedy.
    """
    payloads = []
    start = 0
    while start < len(content):
        payload = _whole_frame(content, start)
        if payload is None:
            if not _is_cut_short(content, start) and not _has_hole(content, start):
                raise StorageError(f"{name}: is damaged at byte {start} of {len(content)}; {remedy}")
            break
        payloads.append(payload)
        start += _PREFIX + len(payload)
    return payloads, len(content) - start


def _whole_frame(content: bytes, start: int) -> bytes | None:
    length = _payload_length(content, start)
    if length is None:
        return None
    payload = content[start + _PREFIX : start + _PREFIX + length]
    checksum = _HEAD.unpack_from(content, start)[2]
    return payload if len(payload) == length and zlib.crc32(payload) == checksum else None


def _payload_length(content: bytes, start: int) -> int | None:
    """The length that an undamaged head names; None where there is none."""
    if start + _PREFIX > len(content):
        return None
    head = content[start : start + _HEAD.size]
    magic, length, _ = _HEAD.unpack(head)
    (head_sum,) = _HEAD_SUM.unpack_from(content, start + _HEAD.size)
    return int(length) if magic == _MAGIC and head_sum == zlib.crc32(head) else None


def _is_cut_short(content: bytes, start: int) -> bool:
    """Whether what stands from ``start`` on is the beginning of a frame and then nothing.

    "Nothing" may be zeros: some file systems lengthen a file before they fill it.
    """
    written = content[start:].rstrip(b"\0")
    if len(written) < _PREFIX:
        return _payload_length(content, start) is None or len(written) < len(content) - start
    length = _payload_length(content, start)
    return length is not None and len(written) < _PREFIX + length


def _has_hole(content: bytes, start: int) -> bool:
    """Whether what stands from ``start`` on is one frame of which a sector was never written.

    The pages of an append may reach the disk in any order. No frame follows the last append, so one that is damaged
    with another one behind it was damaged later.
    """
    length = _payload_length(content, start)
    if length is not None and start + _PREFIX + length < len(content):
        return False
    if length is None and any(_whole_frame(content, place) is not None for place in _heads(content, start + 1)):
        return False
    ends = [*range(start - start % SECTOR + SECTOR, len(content), SECTOR), len(content)]
    first, *others = (content[begin:end] for begin, end in zip([start, *ends], ends, strict=False))
    # A frame begins with no zero, so a single one there proves a hole.
    return not any(first) or any(len(sector) >= _SHORTEST_HOLE and not any(sector) for sector in others)


def _heads(content: bytes, start: int) -> Iterator[int]:
    """Where a frame may begin from ``start`` on."""
    while (start := content.find(_MAGIC, start)) >= 0:
        yield start
        start += 1
