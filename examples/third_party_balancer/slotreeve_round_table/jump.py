"""The slot function ``jump``."""

from hashlib import blake2b

_MULTIPLIER, _MASK = 2862933555777941757, (1 << 64) - 1


class Jump:
    """Lamping and Veach's jump consistent hash: of N slots that become M, only the share 1 - N / M of the keys moves.

    A key is followed through a growing number of slots: at each size its own random numbers tell how many more slots
    it takes until the key jumps to the newest one. About ln(slots) jumps for a key.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots

    def slot_of(self, key: str) -> int:
        """See :class:`slotreeve.ports.SlotFunction`."""
        state = int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        slot = following = 0
        while following < self._slots:
            slot = following
            state = state * _MULTIPLIER + 1 & _MASK
            following = int((slot + 1) * (1 << 31) / ((state >> 33) + 1))
        return slot
