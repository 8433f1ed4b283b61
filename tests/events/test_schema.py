"""The schema of the event log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from slotreeve.model.slots import Move, Slot
from slotreeve_events.schema import (
    COMMON,
    HISTORY_KINDS,
    KINDS,
    REGISTRATION_LISTS,
    Event,
    PushedVersion,
    SlotHolders,
    SlotMove,
)


def test_every_event_has_the_common_fields_and_only_those() -> None:
    required = tuple(field.name for field in msgspec.structs.fields(Event) if field.required)
    assert required == COMMON


@pytest.mark.parametrize("kind", KINDS)
def test_the_fields_that_a_kind_needs_are_fields_of_an_event(kind: str) -> None:
    assert set(KINDS[kind]) <= set(Event.__struct_fields__) - set(COMMON)
    assert set(REGISTRATION_LISTS) <= set(Event.__struct_fields__)


def test_a_move_in_the_log_has_the_fields_of_a_move() -> None:
    assert SlotMove.__struct_fields__ == Move.__struct_fields__
    move = Move(3, "leader", None, "data-1", "slot 3 lacks a leader")
    assert msgspec.to_builtins(SlotMove.of(move)) == {
        field: getattr(move, field) for field in Move.__struct_fields__
    }  # a move on the wire is a list; in the log it is an object


def test_a_slot_in_the_log_has_the_fields_of_a_slot() -> None:
    assert SlotHolders.__struct_fields__ == ("slot", *Slot.__struct_fields__[1:])


def test_a_field_that_is_not_set_is_not_written_but_a_removal_is_written_as_null() -> None:
    event = Event(1, "n@1/1", 0, "n", "pushed", service="a", changes=[PushedVersion("r", None)])
    assert msgspec.json.decode(msgspec.json.encode(event)) == {
        "v": 1,
        "id": "n@1/1",
        "at_ms": 0,
        "node": "n",
        "kind": "pushed",
        "service": "a",
        "changes": [{"register_id": "r", "version": None}],
    }


def test_the_page_of_the_history_has_every_kind_of_its_events() -> None:
    page = (Path(__file__).parents[2] / "docs/history.md").read_text()
    assert [kind for kind in HISTORY_KINDS if f"`{kind}`" not in page] == []
