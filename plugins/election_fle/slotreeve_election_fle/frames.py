"""Bytes on disk: sealed small files and the frames of the log, both with checksums. Pure.

A *sealed* file is written as a whole (``Storage.replace``). A *frame* is what one append adds to the log; the append
may have been cut short by a crash, or have holes where a page was not written, and only the last one can have been.

What a crash leaves out reads as zeros. So the payload of a log frame is *whitened*: whatever a value holds, no sector
that was written is all zeros, and the last byte of a frame is none. A frame without zeros that does not fit its
checksum was damaged after it was written. Frames of earlier versions are not whitened; they are read, not written.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator

from slotreeve.errors import StorageError

_MAGIC = b"SRF1"
_WHITENED_MAGIC = b"SRF2"
_MAGICS = (_MAGIC, _WHITENED_MAGIC)
_END = b"\xff"
"""The last byte of a whitened frame; no change of a single bit makes it a zero."""
_HEAD = struct.Struct("<4sII")  # magic, payload length, payload checksum
_HEAD_SUM = struct.Struct("<I")  # checksum of the head, so that a damaged length is not taken for a short file
_PREFIX = _HEAD.size + _HEAD_SUM.size
SECTOR = 512
"""Bytes that a disk writes as a whole."""
_SHORTEST_HOLE = 4
"""Fewer zeros at the end of a file prove nothing."""


def seal(payload: bytes) -> bytes:
    """The content of a small file: ``payload`` with its length and checksums in front."""
    return _with_head(_MAGIC, payload)


def frame(payload: bytes) -> bytes:
    """What is appended to a log: ``payload``, whitened, with its length and checksums in front."""
    return _with_head(_WHITENED_MAGIC, _whitened(payload) + _END)


def _with_head(magic: bytes, body: bytes) -> bytes:
    head = _HEAD.pack(magic, len(body), zlib.crc32(body))
    return head + _HEAD_SUM.pack(zlib.crc32(head)) + body


def _whitened(payload: bytes) -> bytes:
    """``payload`` with a fixed stream of pseudo-random bits added to it; done twice, it is ``payload`` again."""
    size = len(payload)
    stream = hashlib.shake_128(_HEAD_SUM.pack(size)).digest(size)
    return (int.from_bytes(payload) ^ int.from_bytes(stream)).to_bytes(size)


def unseal(content: bytes, name: str, remedy: str) -> bytes:
    """The payload of a file that is one frame.

    Raises:
        StorageError: it is not exactly one whole frame; names the file and the remedy.
    """
    found = _whole_frame(content, 0)
    if found is None or found[1] != len(content):
        raise StorageError(f"{name}: is damaged (its checksum does not match); {remedy}")
    return found[0]


def read_frames(content: bytes, name: str, remedy: str) -> tuple[list[bytes], int]:
    """The payloads of a log, and how many bytes at its end are the beginning of an append that a crash cut short.

    Raises:
        StorageError: a frame is damaged that was once whole; names the file, the place and the remedy.
    """
    payloads = []
    start = 0
    while start < len(content):
        found = _whole_frame(content, start)
        if found is None:
            if not _is_cut_short(content, start) and not _has_hole(content, start):
                raise StorageError(f"{name}: is damaged at byte {start} of {len(content)}; {remedy}")
            break
        payloads.append(found[0])
        start = found[1]
    return payloads, len(content) - start


def _whole_frame(content: bytes, start: int) -> tuple[bytes, int] | None:
    """The payload of the undamaged frame that begins at ``start``, and where it ends; None where there is none."""
    length = _body_length(content, start)
    if length is None:
        return None
    end = start + _PREFIX + length
    body = content[start + _PREFIX : end]
    magic, _, checksum = _HEAD.unpack_from(content, start)
    if len(body) != length or zlib.crc32(body) != checksum:
        return None
    return (body if magic == _MAGIC else _whitened(body[: -len(_END)])), end


def _body_length(content: bytes, start: int) -> int | None:
    """The length that an undamaged head names; None where there is none."""
    if start + _PREFIX > len(content):
        return None
    head = content[start : start + _HEAD.size]
    magic, length, _ = _HEAD.unpack(head)
    (head_sum,) = _HEAD_SUM.unpack_from(content, start + _HEAD.size)
    return int(length) if magic in _MAGICS and head_sum == zlib.crc32(head) else None


def _is_cut_short(content: bytes, start: int) -> bool:
    """Whether what stands from ``start`` on is the beginning of a frame and then nothing.

    "Nothing" may be zeros: some file systems lengthen a file before they fill it.
    """
    written = content[start:].rstrip(b"\0")
    if len(written) < _PREFIX:
        return _body_length(content, start) is None or len(written) < len(content) - start
    length = _body_length(content, start)
    return length is not None and len(written) < _PREFIX + length


def _has_hole(content: bytes, start: int) -> bool:
    """Whether what stands from ``start`` on is one frame of which a sector was never written.

    The pages of an append may reach the disk in any order. No frame follows the last append, so one that is damaged
    with another one behind it was damaged later.
    """
    length = _body_length(content, start)
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
    for magic in _MAGICS:
        place = start
        while (place := content.find(magic, place)) >= 0:
            yield place
            place += 1
