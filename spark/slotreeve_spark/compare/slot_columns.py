"""Slot functions that take a column of keys as Arrow holds it, without a Python object for each key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Offsets = NDArray[np.signedinteger[Any]]


class SlotColumns(Protocol):
    """The slots of columns of keys."""

    def slots_of(self, octets: NDArray[np.uint8], offsets: Offsets) -> NDArray[np.int64]:
        """The slots, shape (keys,); ``octets`` and ``offsets`` as in :class:`KeyColumn`."""


@runtime_checkable
class ColumnarSlotFunction(Protocol):
    """A slot function may offer this besides :class:`slotreeve.ports.SlotFunction`."""

    def columns(self) -> SlotColumns | None:
        """The same function for columns; None where what it needs is not installed."""


@dataclass(frozen=True)
class KeyColumn:
    """Keys as two arrays, which are the Arrow buffers themselves.

    Attributes:
        octets: the keys' UTF-8 bytes, one after the other.
        offsets: shape (keys + 1,): where each key begins in ``octets``, and the end of the last one.
    """

    octets: NDArray[np.uint8]
    offsets: Offsets

    @classmethod
    def of(cls, array: pa.Array) -> KeyColumn:
        """The keys of an array of strings; a null is an empty key."""
        _, offsets, octets = array.buffers()
        width: type[np.signedinteger[Any]] = np.int64 if pa.types.is_large_string(array.type) else np.int32
        first = array.offset
        return cls(
            np.frombuffer(octets or b"", np.uint8),
            np.frombuffer(offsets, width)[first : first + len(array) + 1],
        )
