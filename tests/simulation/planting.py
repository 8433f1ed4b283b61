"""How bugs are planted: each is a small patch of one method."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

Patch = AbstractContextManager[Any]


@dataclasses.dataclass(frozen=True)
class PlantedBug:
    """A bug that can be planted.

    Attributes:
        name: its key in :data:`BUGS`. ``what``: what the product does wrong then.
        scenario: the built-in scenario that finds it soonest. ``first``: the first seed to try.
        make: makes the patch.
    """

    name: str
    what: str
    scenario: str
    first: int
    make: Callable[[], Patch]


BUGS: dict[str, PlantedBug] = {}


def bug(what: str, scenario: str = "mixed", first: int = 0) -> Callable[[Callable[[], Patch]], Callable[[], Patch]]:
    """Add the bug that the function makes."""

    def add(make: Callable[[], Patch]) -> Callable[[], Patch]:
        name = make.__name__.lstrip("_")
        BUGS[name] = PlantedBug(name, what, scenario, first, make)
        return make

    return add


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Within: the product has this bug, in this process.

    Raises:
        KeyError: there is no such bug in :data:`BUGS`.
    """
    with BUGS[name].make():
        yield


@contextmanager
def both(*patches: Patch) -> Iterator[None]:
    """Several patches as one."""
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield
