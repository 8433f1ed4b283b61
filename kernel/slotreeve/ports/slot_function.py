"""The port of slot functions: they map a key to a slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class SlotFunction(Protocol):
    """Maps a key to a slot. Pure, and called for every publish, so it must be fast."""

    def slot_of(self, key: str) -> int:
        """The slot of ``key`` (a data info id): an integer in 0 .. slots - 1, the same on every machine and run.

        It must not fail for any text, and should spread keys evenly for every number of slots.
        """


@runtime_checkable
class BatchSlotFunction(SlotFunction, Protocol):
    """A slot function that also takes many keys at once. Jobs over millions of keys use that if it is there."""

    def slots_of(self, keys: Sequence[bytes]) -> Sequence[int]:
        """The slots of keys in UTF-8, in order; each equals :meth:`slot_of` of the key as text."""
