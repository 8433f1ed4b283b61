"""A mutant takes the place of a module's functions where they are loaded, and its tests are the quickest ones."""

from __future__ import annotations

from pathlib import Path

from slotreeve_servers.data.endings import timing_wheel

from tests.mutants.operators import removals
from tests.mutants.quick import Trace, functions_of, replace_code

WHEEL = timing_wheel.__file__
TEXT = Path(WHEEL).read_text(encoding="utf-8")


def found_at(seconds: float) -> bool:
    """Whether an entry that was dropped is found."""
    wheel, entry = timing_wheel.TimingWheel[timing_wheel.Timed](0.0), timing_wheel.Timed()
    wheel.add(entry, 1.0)
    wheel.drop(entry)
    return wheel.due(seconds) is entry


def test_a_mutant_is_in_force_until_the_module_is_as_it_was() -> None:
    functions = functions_of(frozenset({WHEEL}))
    (mutant,) = [one for one in removals(TEXT) if TEXT[one.start : one.end] == "bucket.pop(entry, None)"]
    assert not found_at(5.0)
    try:
        assert replace_code(functions, WHEEL, mutant.applied_to(TEXT)) == 1
        assert found_at(5.0)
    finally:
        assert replace_code(functions, WHEEL, TEXT) == 1
    assert not found_at(5.0)
    assert replace_code(functions, WHEEL, TEXT) == 0, "nothing differs"


def test_the_quickest_tests_of_a_line_are_chosen_as_long_as_they_take_together() -> None:
    trace = Trace(frozenset({WHEEL}))
    trace.seconds.update({"slow": 9.0, "quick": 0.5, "other": 1.0, "elsewhere": 0.1})
    trace.tests.update({(WHEEL, 7): ["slow", "quick"], (WHEEL, 8): ["other", "quick"], (WHEEL, 9): ["elsewhere"]})
    assert trace.of(WHEEL, range(7, 9), 2.0) == ["quick", "other"]
    assert trace.of(WHEEL, range(7, 9), 20.0) == ["quick", "other", "slow"]
    assert trace.of(WHEEL, range(7, 8), 0.1) == ["quick"], "one at least"
    assert trace.of(WHEEL, range(20, 21), 9.0) == []
