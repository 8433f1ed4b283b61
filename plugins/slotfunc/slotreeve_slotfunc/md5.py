"""The slot function ``md5`` (original: ``MD5SlotFunction``)."""

from __future__ import annotations

from hashlib import md5


class Md5:
    """The first four bytes of the key's MD5, little-endian and signed; their absolute value modulo the number of slots.

    Equal to the original but for one key in 2**32: Java's ``abs`` leaves the smallest number negative, so that the
    original answers with a negative slot where the number of slots is no power of two; this one never does. A lone
    surrogate, which UTF-8 cannot express, counts as ``?``, as it does in Java.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots

    def slot_of(self, key: str) -> int:
        """The slot of ``key``; about 900 ns."""
        digest = md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()
        return abs(int.from_bytes(digest[:4], "little", signed=True)) % self._slots
