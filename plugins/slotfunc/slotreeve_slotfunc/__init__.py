"""Slot functions: ``crc32c`` (the default) and ``md5``. Both equal SOFARegistry's if the number of slots is a power of
two.

Both make a signed 32-bit number from the key's UTF-8 bytes; the slot is its absolute value modulo the number of slots.
"""

from __future__ import annotations

from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import SlotFunction

__all__ = ["slotreeve_slot_functions"]


def _build_crc32c(options: Options, context: Context) -> SlotFunction:
    from slotreeve_slotfunc.crc32c import Crc32c

    return Crc32c(context.slots)


def _build_md5(options: Options, context: Context) -> SlotFunction:
    from slotreeve_slotfunc.md5 import Md5

    return Md5(context.slots)


@hookimpl
def slotreeve_slot_functions() -> list[Offer]:
    """The two slot functions."""
    return [
        Offer(
            "crc32c",
            _build_crc32c,
            "CRC-32C of the key: fast, in hardware if the processor has it; spreads keys evenly",
        ),
        Offer("md5", _build_md5, "first four bytes of the key's MD5, for clusters that used SOFARegistry's md5"),
    ]
