"""Which server led which slot at some time, made again from the commits of slot tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slotreeve.model.slots import Slot
from slotreeve_events.schema import HistoryNote, SlotHolders

from slotreeve_face_console.rendering import time_text
from slotreeve_face_console.slot_states import ServerNumbers

UNKNOWN = "?"
"""The cell of a slot of which nothing is known at that time."""


@dataclass(frozen=True)
class TableStep:
    """A commit: when, as text too, the epoch, and the cells of the slots that changed, by id."""

    at_ms: int
    at: str
    epoch: int
    cells: Mapping[str, str]


@dataclass(frozen=True)
class SlotPast:
    """The slot map from ``since_ms`` until ``until_ms``.

    Attributes:
        names: the data servers, by the numbers that cells have.
        cells: all slots as they were at ``since_ms``; ``?``: it is not known.
        steps: the commits after that, the oldest first.
        notes: what is missing.
    """

    since_ms: int
    until_ms: int
    names: Sequence[str]
    cells: Sequence[str]
    steps: Sequence[TableStep]
    notes: Sequence[str] = ()


def slot_past(
    events: Iterable[HistoryNote],
    slots: Sequence[Slot],
    since_ms: int,
    until_ms: int,
    numbers: ServerNumbers,
    notes: Sequence[str] = (),
) -> SlotPast:
    """The map of a time.

    Args:
        events: commits of slot tables, in any order; others are left out. The first one of a process has all slots,
            later ones those that changed.
        slots: the present table. A slot that did not change since then is as it is now.
        since_ms, until_ms: the time.
        numbers: of the servers.
        notes: what is missing.
    """
    cells = {slot.id: _cell(slot, numbers) for slot in slots}
    ordered = sorted((event for event in events if event.changed), key=lambda event: (event.epoch or 0, event.at_ms))
    later = [event for event in ordered if event.at_ms > since_ms]
    before = {slot.slot: slot for event in ordered if event.at_ms <= since_ms for slot in event.changed or ()}
    for event in later:
        for slot in event.changed or ():
            cells[slot.slot] = UNKNOWN
    cells |= {number: _cell(slot, numbers) for number, slot in before.items() if number in cells}
    steps, known = [], dict(cells)
    for event in later:
        made = {slot.slot: _cell(slot, numbers) for slot in event.changed or () if slot.slot in cells}
        changed = {number: cell for number, cell in made.items() if known[number] != cell}
        known |= changed
        if changed:
            texts = {str(number): cell for number, cell in changed.items()}
            steps.append(TableStep(event.at_ms, time_text(event.at_ms), event.epoch or 0, texts))
    names = list(numbers.numbers)
    return SlotPast(since_ms, until_ms, names, [cells[number] for number in sorted(cells)], steps, notes)


def _cell(slot: Slot | SlotHolders, numbers: ServerNumbers) -> str:
    holders = (slot.leader, *slot.followers, *slot.learners)
    return ",".join(str(numbers.of(name)) for name in holders) + "c" * bool(slot.learners)
