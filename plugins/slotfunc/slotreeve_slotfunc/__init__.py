"""Slot functions: ``crc32c`` (the default) and ``md5``, both equal to SOFARegistry's for powers of two.

Both take the key's UTF-8 bytes, make a signed 32-bit number of them, and reduce its absolute value to a slot.
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
        Offer("crc32c", _build_crc32c, "CRC-32C of the key, in hardware where there is any: fast, spreads evenly"),
        Offer("md5", _build_md5, "first four bytes of the key's MD5: for clusters that come from SOFARegistry's md5"),
    ]
