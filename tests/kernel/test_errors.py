"""The tree of errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

import slotreeve.errors
from slotreeve.errors import ModelError, SlotreeveError, TransportError


def tree(root: type[SlotreeveError] = SlotreeveError) -> Iterator[type[SlotreeveError]]:
    """Every error of the product below ``root``."""
    for error in root.__subclasses__():
        if error.__module__ == "slotreeve.errors":
            yield error
            yield from tree(error)


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [error.code for error in tree()]
    assert len(codes) == len(set(codes)) >= 20
    assert all(re.fullmatch(r"SR\d{3}", code) for code in codes)


def test_an_error_has_a_code_of_the_hundred_of_its_parent() -> None:
    for error in tree():
        parent = error.__mro__[1]
        assert issubclass(parent, SlotreeveError)
        assert parent is SlotreeveError or error.code[:3] == parent.code[:3]


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    assert slotreeve.errors.__doc__ is not None
    drawn = re.findall(r"[├└]── (\w+)", slotreeve.errors.__doc__)
    assert drawn == [error.__name__ for error in tree()]


def test_a_caller_can_catch_a_whole_branch() -> None:
    assert issubclass(ModelError, ValueError)
    assert {error.__name__ for error in tree(TransportError)} >= {"Refused", "RequestTimeout", "Backpressure"}
