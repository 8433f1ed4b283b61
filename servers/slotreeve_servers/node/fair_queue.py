"""Whatever waits where the holders of keys take turns, however many things each of them waits for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """Things that wait, each once and each for a holder. Those of one holder are taken in order, and the holders take
    turns. Every method takes the same time, however much waits."""

    def __init__(self) -> None:
        # The next holder is the first.
        # Ordered ones, because the first key of a plain dict is found by a walk over all that stood before it.
        self._waiting: OrderedDict[Hashable, OrderedDict[T, None]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, holder: Hashable, thing: T) -> None:
        """This waits from now on, behind all of its holder; where it was if it waits already."""
        theirs = self._waiting.setdefault(holder, OrderedDict())
        self._length += thing not in theirs
        theirs[thing] = None

    def has(self, holder: Hashable, thing: T) -> bool:
        """Whether this waits for that holder."""
        return thing in self._waiting.get(holder, ())

    def take(self) -> T:
        """The next one, which waits no more. Then it is the turn of the other holders.

        Raises:
            LookupError: nothing waits.
        """
        if not self._waiting:
            raise LookupError("nothing waits")
        holder, theirs = next(iter(self._waiting.items()))
        thing = next(iter(theirs))
        self._waiting.move_to_end(holder)
        self.remove(holder, thing)
        return thing

    def remove(self, holder: Hashable, thing: T) -> None:
        """This waits no more. Does nothing if it did not."""
        if self.has(holder, thing):
            theirs = self._waiting[holder]
            del theirs[thing]
            self._length -= 1
            if not theirs:
                del self._waiting[holder]

    def clear(self) -> None:
        """Nothing waits any more."""
        self._waiting.clear()
        self._length = 0
