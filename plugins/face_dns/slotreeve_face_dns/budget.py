"""How much goes to one address over UDP, where a forged sender may direct it at a stranger. Pure."""

from __future__ import annotations

MOST_SOURCES = 50_000


class Budget:
    """Bytes a second to each source. An answer that goes beyond it is not sent whole."""

    def __init__(self, bytes_per_second: int) -> None:
        self._most = bytes_per_second
        self._second = 0
        self._spent: dict[str, int] = {}

    def allows(self, source: str, size: int, now: float) -> bool:
        """Spend ``size`` bytes on an address. False: it has had its share of this second."""
        if int(now) != self._second:
            self._second = int(now)
            self._spent.clear()
        spent = self._spent.get(source, 0) + size
        if spent > self._most or (spent == size and len(self._spent) >= MOST_SOURCES):
            return False
        self._spent[source] = spent
        return True
