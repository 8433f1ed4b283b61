"""A patch that does not fit is refused, and an exception in a log is not taken for a broken invariant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from slotreeve.model.slots import SlotTable
from slotreeve_client.core import ClientCore
from slotreeve_client.replay import ClientReplay
from slotreeve_election_mysql.requests import Requests
from slotreeve_protocol.slot_messages import SlotWrite
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.meta import core
from slotreeve_simulator.scenario import built_in

from tests.simulation.masked_bugs import MASKED
from tests.simulation.planting import BUGS, Patch, WrongPatch, both, bug, planted, replaced, returning
from tests.simulation.soak.test_planted_bugs import find


def refused(owner: object, name: str, new: object) -> str:
    with pytest.raises(WrongPatch) as raised:
        replaced(owner, name, new)
    return str(raised.value)


def test_there_are_at_least_fifty_bugs_to_find_and_at_most_one_in_ten_is_masked() -> None:
    assert len(BUGS) >= 50
    assert BUGS.keys() >= MASKED.keys()
    assert len(MASKED) <= len(BUGS) / 10


def test_every_bug_can_be_planted() -> None:
    for name in BUGS:
        with planted(name):
            assert BUGS[name].scenario in built_in()


def test_a_patch_with_another_signature_is_refused_where_it_is_planted() -> None:
    def apply(self: HeldSlot, write: SlotWrite) -> None: ...

    message = refused(HeldSlot, "apply", apply)
    assert message.startswith("HeldSlot.apply: the patch is (positional or keyword self, positional or keyword write)")
    assert message.endswith("positional or keyword write, positional or keyword now)")
    assert "the patch is (variadic positional )" in refused(ClientCore, "retry", lambda *_: None)


def test_a_patch_of_another_kind_is_refused() -> None:
    async def later(self: Requests) -> None: ...

    assert "a property" in refused(ClientReplay, "is_stored", lambda self: True)
    assert "a value of bool" in refused(ClientReplay, "is_stored", True)
    assert "the patch is async" in refused(ClientCore, "retry", later)


def test_a_patch_of_something_that_has_moved_away_is_refused() -> None:
    assert refused(core, "led_anew", lambda table: table) == (
        "slotreeve_servers.meta.core.led_anew: there is no such attribute"
    )


def test_a_patch_with_the_same_signature_is_planted_and_taken_out() -> None:
    original = HeldSlots.apply

    def apply(self: HeldSlots, _table: SlotTable, _unclean: Collection[int] = ()) -> Any:
        return original(self, _table, _unclean)

    with both(replaced(HeldSlots, "apply", apply), returning(ClientCore, "retry")):
        assert vars(HeldSlots)["apply"] is apply
        assert vars(ClientCore)["retry"](None) is None
    assert HeldSlots.apply is original


def only_raises() -> Patch:
    def apply(self: HeldSlots, table: SlotTable, unclean: Collection[int] = ()) -> Any:
        raise TypeError("a patch that is wrong itself")

    return replaced(HeldSlots, "apply", apply)


def test_a_bug_that_only_raises_is_not_found_unless_it_says_why() -> None:
    assert find("data", [0], only_raises())[-1] == ""
    assert find("data", [0], only_raises(), raises="it is about what a server raises")[-1].startswith("seed 0: health")


def test_a_bug_that_was_declared_wrongly_cannot_be_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    bugs: dict[str, Any] = {}
    monkeypatch.setattr("tests.simulation.planting.BUGS", bugs)

    @bug("an argument is forgotten")
    def _forgetful() -> Patch:
        return replaced(HeldSlots, "apply", lambda self: ([], []))

    with pytest.raises(WrongPatch), planted("forgetful"):
        pass
