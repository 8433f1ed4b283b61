"""CRC-32C of a column of keys, compiled by numba. Needs the extra ``slotreeve[columns]``.

The tables are Intel's "slicing by 8" (Kounavis and Berry, "Novel Table Lookup-Based Algorithms for High-Performance
CRC Generation", 2008), with sixteen of them: sixteen bytes take sixteen look-ups that do not wait for each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, with its bits reversed."""
_SLICES = 16

P = ParamSpec("P")
T = TypeVar("T")


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
    """Shape (16, 256): ``[n, b]`` is what the byte b does to the checksum when n more bytes follow."""
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
        f"void({read('uint8')}, {read(offset)}, uint32, uint32[:, ::1], int64[::1])" for offset in ("int32", "int64")
    ]
    return numba.njit(signatures, nogil=True)(_write_slots)


def _inside(function: Callable[P, T]) -> Callable[P, T]:
    """Let numba put a function into the one that calls it."""
    return cast("Callable[P, T]", numba.njit(function))


@_inside
def _four_bytes(octets: NDArray[np.uint8], at: np.uintp) -> np.uint32:
    """Four bytes as a number, the first one lowest. The compiler makes one load of it."""
    return np.uint32(
        np.uint32(octets[at])
        | (np.uint32(octets[at + np.uintp(1)]) << np.uint32(8))
        | (np.uint32(octets[at + np.uintp(2)]) << np.uint32(16))
        | (np.uint32(octets[at + np.uintp(3)]) << np.uint32(24))
    )


@_inside
def _looked_up(tables: NDArray[np.uint32], following: int, word: np.uint32) -> np.uint32:
    """What four bytes do to the checksum when so many more follow."""
    return np.uint32(
        tables[following + 3, np.uint8(word)]
        ^ tables[following + 2, np.uint8(word >> np.uint32(8))]
        ^ tables[following + 1, np.uint8(word >> np.uint32(16))]
        ^ tables[following, np.uint8(word >> np.uint32(24))]
    )


def _write_slots(
    octets: NDArray[np.uint8],
    offsets: NDArray[np.signedinteger[Any]],
    slots: np.uint32,
    tables: NDArray[np.uint32],
    found: NDArray[np.int64],
) -> None:
    # Numbers without a sign throughout: a signed index costs a test whether it counts from the end.
    four, sixteen = np.uintp(4), np.uintp(_SLICES)
    for key in range(len(found)):
        at, end = np.uintp(offsets[key]), np.uintp(offsets[key + 1])
        crc = np.uint32(0xFFFFFFFF)
        while end - at >= sixteen:
            crc = (
                _looked_up(tables, 12, crc ^ _four_bytes(octets, at))
                ^ _looked_up(tables, 8, _four_bytes(octets, at + four))
                ^ _looked_up(tables, 4, _four_bytes(octets, at + np.uintp(8)))
                ^ _looked_up(tables, 0, _four_bytes(octets, at + np.uintp(12)))
            )
            at += sixteen
        while end - at >= four:
            crc = _looked_up(tables, 0, crc ^ _four_bytes(octets, at))
            at += four
        while at < end:
            crc = tables[0, np.uint8(crc ^ np.uint32(octets[at]))] ^ (crc >> np.uint32(8))
            at += np.uintp(1)
        signed = np.uint32(crc ^ np.uint32(0xFFFFFFFF))
        # Java takes numbers from 2^31 on as negative ones.
        size = signed if signed < np.uint32(0x80000000) else np.uint32(np.uint32(0) - signed)
        found[key] = size % slots
