"""Mutants differ from the module in one place that can be seen, and the same seed draws the same ones."""

from __future__ import annotations

import ast

from tests.lanes.lanes import ROOT
from tests.mutants.operators import changes, choose

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


def test_every_mutant_of_a_real_module_can_be_read() -> None:
    text = (ROOT / "servers/slotreeve_servers/data/endings/endings.py").read_text(encoding="utf-8")
    found = changes(text)
    assert len(found) > 50
    for change in found:
        assert ast.dump(ast.parse(change.applied_to(text))) != ast.dump(ast.parse(text))


def test_the_same_seed_draws_the_same_mutants_far_from_each_other() -> None:
    modules = [
        (name, (ROOT / name).read_text(encoding="utf-8")) for name in ("servers/slotreeve_servers/data/core.py",)
    ]
    drawn = choose(modules, 5, 7)
    assert drawn == choose(modules, 5, 7) != choose(modules, 5, 8)
    assert len({change.line // 25 for _, change in drawn}) == 5
