"""Mutants differ from the module in one place that can be seen, and the same seed draws the same ones."""

from __future__ import annotations

import ast

from tests.lanes.lanes import ROOT
from tests.mutants.operators import changes, choose, removals

MODULE = '''
"""A module < another."""
SIZE = 3

@decorated(slots=True)
def first(self, given: int = 1) -> bool:
    """At most 1 < 2."""
    logger.warning("%d", 1 + 2)
    if not given:
        raise ValueError("1 < 2" + "3")
    self.count += 1
    self.tell("é", given < (4))
    return given is None and min(given, 2) - 1 >= 0
'''


def test_each_operator_has_its_mutants_and_what_is_only_said_has_none() -> None:
    mutants = [change.applied_to(MODULE) for change in changes(MODULE)]
    lines = {
        after.strip()
        for mutant in mutants
        for before, after in zip(MODULE.splitlines(), mutant.splitlines(), strict=True)
        if before != after
    }
    assert lines == {
        "if not (not given):",
        "pass",
        "self.count += 2",
        'self.tell("é", given <= (4))',
        'self.tell("é", given < (5))',
        "return given is not None and min(given, 2) - 1 >= 0",
        "return given is None or min(given, 2) - 1 >= 0",
        "return given is None and max(given, 2) - 1 >= 0",
        "return given is None and min(given, 3) - 1 >= 0",
        "return given is None and min(given, 2) + 1 >= 0",
        "return given is None and min(given, 2) - 2 >= 0",
        "return given is None and min(given, 2) - 1 > 0",
        "return given is None and min(given, 2) - 1 >= 1",
    }
    assert len(mutants) == 14


CONDITIONS = """
def second(self, given: int) -> list[int]:
    logger.info("nothing to take away")
    if given or self.count and (given < 4 or
            given > 9):
        self.count = 0
    if (found := self.find(given)) is not None and found:
        del self.kept[found]
    local = given + 1
    self.tell(local)
    return [one for one in self.kept if one > local]
"""


def test_conditions_filters_calls_and_assignments_can_be_taken_away() -> None:
    lines = CONDITIONS.splitlines()
    taken = sorted((change.line, change.new) for change in removals(CONDITIONS))
    either = "given < 4 or\n            given > 9"
    assert taken == [
        (4, f"(({either}))"),
        (4, "((given < 4))"),
        (4, "((given > 9))"),
        (4, "((given))"),
        (4, f"((self.count and ({either})))"),
        (4, "((self.count))"),
        (4, "False"),
        (4, "True"),
        (6, "pass"),
        (8, "pass"),
        (10, "pass"),
        (11, "True"),
    ]
    assert lines[6].strip().startswith("if (found :="), "what a condition names stays"


def test_every_mutant_of_a_real_module_can_be_read() -> None:
    text = (ROOT / "servers/slotreeve_servers/data/endings/endings.py").read_text(encoding="utf-8")
    assert len(changes(text)) > 50
    assert len(removals(text)) > 50
    for change in (*changes(text), *removals(text)):
        assert ast.dump(ast.parse(change.applied_to(text))) != ast.dump(ast.parse(text))


def test_the_same_seed_draws_the_same_mutants_far_from_each_other() -> None:
    modules = [
        (name, (ROOT / name).read_text(encoding="utf-8")) for name in ("servers/slotreeve_servers/data/core.py",)
    ]
    drawn = choose(modules, 5, 7)
    assert drawn == choose(modules, 5, 7) != choose(modules, 5, 8)
    assert len({change.line // 25 for _, change in drawn}) == 5
