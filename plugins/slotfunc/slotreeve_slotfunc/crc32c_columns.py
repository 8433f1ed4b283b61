"""CRC-32C of a column of keys, compiled by numba. Needs the extra ``slotreeve[columns]``.

The eight tables are Intel's "slicing by 8" (Kounavis and Berry, "Novel Table Lookup-Based Algorithms for
High-Performance CRC Generation", 2008): eight bytes take eight look-ups that do not wait for each other.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, with its bits reversed."""
_SLICES = 8


class Crc32cColumns:
    """The slots of a column of keys, equal to those of :class:`slotreeve_slotfunc.crc32c.Crc32c`.

    The first one in a process compiles, which takes some seconds.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._write_slots, self._tables = _compiled(), _tables()

    def slots_of(self, octets: NDArray[np.uint8], offsets: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
        """The slots, shape (keys,). ``octets``: the keys' UTF-8 bytes, one after the other. ``offsets``, shape (keys +
        1,): where each begins, and the end of the last one."""
        found = np.empty(len(offsets) - 1, np.int64)
        self._write_slots(octets, offsets, self._slots, self._tables, found)
        return found


@functools.cache
def _tables() -> NDArray[np.uint32]:
    """Shape (8, 256): ``[n, b]`` is what the byte b does to the checksum when n more bytes follow."""
    tables = np.zeros((_SLICES, 256), np.uint32)
    checksums = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        checksums = np.where(checksums & 1, (checksums >> 1) ^ np.uint32(_POLYNOMIAL), checksums >> 1).astype(np.uint32)
    tables[0] = checksums
    for number in range(1, _SLICES):
        before = tables[number - 1]
        tables[number] = tables[0][before & 0xFF] ^ (before >> 8)
    return tables


@functools.cache
def _compiled() -> Any:
    """:func:`_write_slots` for both kinds of offsets that Arrow has."""
    read = "Array({}, 1, 'C', readonly=True)".format
    signatures = [
        f"void({read('uint8')}, {read(offset)}, int64, uint32[:, ::1], int64[::1])" for offset in ("int32", "int64")
    ]
    return numba.njit(signatures, nogil=True)(_write_slots)


def _write_slots(
    octets: NDArray[np.uint8],
    offsets: NDArray[np.signedinteger[Any]],
    slots: int,
    tables: NDArray[np.uint32],
    found: NDArray[np.int64],
) -> None:
    for key in range(len(found)):
        at, end = offsets[key], offsets[key + 1]
        crc = np.uint32(0xFFFFFFFF)
        while end - at >= _SLICES:
            crc = (
                tables[7, octets[at] ^ (crc & 0xFF)]
                ^ tables[6, octets[at + 1] ^ ((crc >> 8) & 0xFF)]
                ^ tables[5, octets[at + 2] ^ ((crc >> 16) & 0xFF)]
                ^ tables[4, octets[at + 3] ^ (crc >> 24)]
                ^ tables[3, octets[at + 4]]
                ^ tables[2, octets[at + 5]]
                ^ tables[1, octets[at + 6]]
                ^ tables[0, octets[at + 7]]
            )
            at += _SLICES
        while at < end:
            crc = tables[0, octets[at] ^ (crc & 0xFF)] ^ (crc >> 8)
            at += 1
        signed = np.int64(crc ^ np.uint32(0xFFFFFFFF))
        found[key] = (signed if signed < 0x80000000 else 0x100000000 - signed) % slots
