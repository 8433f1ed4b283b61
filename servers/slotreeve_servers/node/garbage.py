"""When Python looks for reference cycles in a server process.

A full collection goes through every object that can be part of a cycle: with a million of them it takes half a second,
in which no request is answered, and a server that fills up does it again and again. What a server holds of clients
needs no collector, because it ends with its last reference. So whatever has survived one full collection is set aside
(``gc.freeze``) and not looked at in the next ones, which then take some milliseconds. Some cycles are among it: an
ended connection and its link hold each other. Therefore a complete collection follows where the number of objects set
aside has doubled, every ten minutes at most.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping

YOUNG_OBJECTS = 5_000
"""So many new objects begin a collection of the youngest."""
COLLECTIONS = 4
"""So many collections of one generation begin one of the next."""
COMPLETE_SECONDS = 600.0
"""Shortest time between complete collections."""
MANY_OBJECTS = 200_000
"""With fewer objects more than at the last complete collection none is needed."""
_OLDEST = 2


class GarbageCollection:
    """The collector's settings for a server process. It concerns the whole process: make one.

    Args:
        now: a monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._completed_at, self._kept = now(), 0
        self._is_complete = False
        self._thresholds = gc.get_threshold()

    def begin(self) -> None:
        """Set aside what was imported and built so far, which stays to the end."""
        gc.freeze()
        self._kept = gc.get_freeze_count()
        gc.set_threshold(YOUNG_OBJECTS, COLLECTIONS, COLLECTIONS)
        gc.callbacks.append(self._collected)

    def end(self) -> None:
        """Collect as Python does by default."""
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def _collected(self, phase: str, details: Mapping[str, int]) -> None:
        if phase != "stop" or details["generation"] != _OLDEST:
            return
        gc.freeze()
        if self._is_complete:
            self._is_complete, self._kept = False, gc.get_freeze_count()
        elif self._now() >= self._completed_at + COMPLETE_SECONDS:
            self._completed_at = self._now()
            if gc.get_freeze_count() > max(2 * self._kept, self._kept + MANY_OBJECTS):
                self._is_complete = True  # the next one
                gc.unfreeze()
