"""The port of slot functions: which slot a key belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class SlotFunction(Protocol):
    """Maps a key to a slot. Pure, and called for every publish: build it for speed."""

    def slot_of(self, key: str) -> int:
        """The slot of ``key`` (a data info id): an integer in 0 .. slots - 1, the same on every machine and run.

        Never fails for any text. Keys should spread evenly for every number of slots.
        """


@runtime_checkable
class BatchSlotFunction(SlotFunction, Protocol):
    """A slot function that takes many keys at once, too: jobs over millions of keys use that where it is offered."""

    def slots_of(self, keys: Sequence[bytes]) -> Sequence[int]:
        """The slot of each key, in order: what :meth:`slot_of` says of the text that ``keys`` have in UTF-8."""
