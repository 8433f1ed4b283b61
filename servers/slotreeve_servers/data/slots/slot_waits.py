"""Slots that this server leads and that do not serve yet: what they wait for, for people. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Set

from slotreeve_events.history import ServerHistory

from slotreeve_servers.data.slots.slots import HeldSlot

log = logging.getLogger("slotreeve.data")

TOLD_AFTER_SECONDS = 2.0
"""A slot that waits for so long is told of: a quiet take-over takes a fraction of a second."""
MOST_LOOKED_AT = 1_000
MOST_NAMED = 5


class SlotWaits:
    """Tells the log and the history when slots begin to wait for other processes, and when none waits any more.

    Args:
        history: of this server, if it keeps one.
    """

    def __init__(self, history: ServerHistory | None) -> None:
        self._history = history
        self._told: frozenset[str] = frozenset()

    def look(self, slots: Iterable[tuple[HeldSlot, Set[str]]]) -> None:
        """``slots``: those that wait for so long, each with the session processes that it waits for."""
        waiting: dict[str, list[int]] = {}
        for slot, processes in slots:
            for process_id in processes:
                waiting.setdefault(process_id, []).append(slot.slot.id)
        if waiting.keys() == self._told:
            return
        ended, self._told = self._told - waiting.keys(), frozenset(waiting)
        if waiting:
            self._tell(waiting)
        elif ended:
            text = f"no slot waits for {', '.join(sorted(ended))} any more"
            log.info("%s", text)
            if self._history is not None:
                self._history.note("slots_wait", text)

    def _tell(self, waiting: Mapping[str, list[int]]) -> None:
        for process_id, numbers in sorted(waiting.items()):
            shown = ", ".join(map(str, numbers[:MOST_NAMED])) + (", ..." if len(numbers) > MOST_NAMED else "")
            what = "1 slot waits" if len(numbers) == 1 else f"{len(numbers)} slots wait"
            text = f"{what} for the records of {process_id} before reads are answered: {shown}"
            log.info("%s", text, extra={"slots": numbers[:MOST_LOOKED_AT]})
            if self._history is not None:
                self._history.note("slots_wait", text).slots = numbers
